package kinds

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

func (h Handlers) addAccessReviews(authorize authorizer.UnconditionalAuthorizer) {
	for _, review := range []reviewStorage{
		{plural: "subjectaccessreviews", singular: "subjectaccessreview", object: &authorizationv1.SubjectAccessReview{}},
		{plural: "selfsubjectaccessreviews", singular: "selfsubjectaccessreview", object: &authorizationv1.SelfSubjectAccessReview{}},
		{plural: "localsubjectaccessreviews", singular: "localsubjectaccessreview", object: &authorizationv1.LocalSubjectAccessReview{}, namespaced: true},
	} {
		review.authorizer = authorize
		h.add(authorizationv1.SchemeGroupVersion, review.plural, &review)
	}
}

// reviewStorage answers one kind of access review. Nothing is stored: the
// answer to a POST is all there is.
type reviewStorage struct {
	authorizer authorizer.UnconditionalAuthorizer
	object     runtime.Object
	plural     string
	singular   string
	namespaced bool
}

func (s *reviewStorage) New() runtime.Object { return newLike(s.object) }

func (s *reviewStorage) Destroy() {}

func (s *reviewStorage) NamespaceScoped() bool { return s.namespaced }

func (s *reviewStorage) GetSingularName() string { return s.singular }

func (s *reviewStorage) Create(ctx context.Context, object runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	attributes, status, err := question(ctx, object)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, object.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	decision, reason, err := s.authorizer.Authorize(ctx, attributes)
	status.Allowed = decision == authorizer.DecisionAllow
	status.Denied = decision == authorizer.DecisionDeny
	status.Reason = reason
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return object, nil
}

// question reads from a review what it asks, and where the answer goes.
func question(ctx context.Context, object runtime.Object) (authorizer.Attributes, *authorizationv1.SubjectAccessReviewStatus, error) {
	switch review := object.(type) {
	case *authorizationv1.SubjectAccessReview:
		attributes, err := askedAbout(subject(review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		return attributes, &review.Status, err
	case *authorizationv1.LocalSubjectAccessReview:
		if err := checkLocal(ctx, review); err != nil {
			return nil, nil, err
		}
		attributes, err := askedAbout(subject(review.Spec), review.Spec.ResourceAttributes, nil)
		return attributes, &review.Status, err
	case *authorizationv1.SelfSubjectAccessReview:
		self, ok := genericapirequest.UserFrom(ctx)
		if !ok {
			return nil, nil, apierrors.NewBadRequest("no user present on request")
		}
		attributes, err := askedAbout(self, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		return attributes, &review.Status, err
	default:
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("not an access review: %T", object))
	}
}

func checkLocal(ctx context.Context, review *authorizationv1.LocalSubjectAccessReview) error {
	namespace := genericapirequest.NamespaceValue(ctx)
	if about := review.Spec.ResourceAttributes; about == nil || about.Namespace != namespace {
		return apierrors.NewBadRequest("spec.resourceAttributes.namespace must match namespace: " + namespace)
	}
	return nil
}

func subject(spec authorizationv1.SubjectAccessReviewSpec) user.Info {
	extra := map[string][]string{}
	for key, values := range spec.Extra {
		extra[key] = values
	}
	return &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: extra}
}

// askedAbout checks that exactly one of the two kinds of attributes is set.
func askedAbout(who user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) (authorizer.Attributes, error) {
	if who.GetName() == "" && len(who.GetGroups()) == 0 {
		return nil, invalidReview(field.Required(field.NewPath("spec", "user"), "at least one of user or group must be specified"))
	}
	switch {
	case resource != nil && path == nil:
		return resourceQuestion(who, resource), nil
	case path != nil && resource == nil:
		return authorizer.AttributesRecord{User: who, Verb: path.Verb, Path: path.Path}, nil
	default:
		return nil, invalidReview(field.Required(field.NewPath("spec", "resourceAttributes"),
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
}

func resourceQuestion(who user.Info, about *authorizationv1.ResourceAttributes) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User:            who,
		Verb:            about.Verb,
		Namespace:       about.Namespace,
		APIGroup:        about.Group,
		APIVersion:      about.Version,
		Resource:        about.Resource,
		Subresource:     about.Subresource,
		Name:            about.Name,
		ResourceRequest: true,
	}
}

func invalidReview(err *field.Error) error {
	return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview").GroupKind(), "", field.ErrorList{err})
}
