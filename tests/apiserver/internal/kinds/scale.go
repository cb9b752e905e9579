package kinds

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// scaleFields finds in an object of one kind what its Scale shows.
type scaleFields struct {
	replicas func(object runtime.Object) **int32
	current  func(object runtime.Object) int32
	selector func(object runtime.Object) string
}

var (
	deploymentScale = &scaleFields{
		replicas: func(object runtime.Object) **int32 { return &object.(*appsv1.Deployment).Spec.Replicas },
		current:  func(object runtime.Object) int32 { return object.(*appsv1.Deployment).Status.Replicas },
		selector: workloadSelector,
	}
	replicaSetScale = &scaleFields{
		replicas: func(object runtime.Object) **int32 { return &object.(*appsv1.ReplicaSet).Spec.Replicas },
		current:  func(object runtime.Object) int32 { return object.(*appsv1.ReplicaSet).Status.Replicas },
		selector: workloadSelector,
	}
	statefulSetScale = &scaleFields{
		replicas: func(object runtime.Object) **int32 { return &object.(*appsv1.StatefulSet).Spec.Replicas },
		current:  func(object runtime.Object) int32 { return object.(*appsv1.StatefulSet).Status.Replicas },
		selector: workloadSelector,
	}
	replicationControllerScale = &scaleFields{
		replicas: func(object runtime.Object) **int32 { return &object.(*corev1.ReplicationController).Spec.Replicas },
		current:  func(object runtime.Object) int32 { return object.(*corev1.ReplicationController).Status.Replicas },
		selector: func(object runtime.Object) string {
			return labels.SelectorFromSet(object.(*corev1.ReplicationController).Spec.Selector).String()
		},
	}
)

func workloadSelector(object runtime.Object) string {
	selector, _ := selectorAndTemplate(object)
	return metav1.FormatLabelSelector(selector)
}

// replicasPath tells field management that a Scale's replicas are the
// object's, so that who scales comes to own them.
func (k *Kind) replicasPath() managedfields.ResourcePathMappings {
	return managedfields.ResourcePathMappings{k.groupVersion.String(): fieldpath.MakePathOrDie("spec", "replicas")}
}

// scaleStorage serves /scale from the storage of the main resource.
type scaleStorage struct {
	store *genericregistry.Store
	kind  *Kind
}

func (s *scaleStorage) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy does nothing: the storage belongs to the main resource.
func (s *scaleStorage) Destroy() {}

func (s *scaleStorage) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

func (s *scaleStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	object, err := s.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return s.kind.scaleOf(object), nil
}

func (s *scaleStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	scaled := &scaledObject{UpdatedObjectInfo: info, kind: s.kind, name: name}
	object, _, err := s.store.Update(ctx, name, scaled, onScale(s.kind, create), onScaleUpdate(s.kind, update), false, options)
	if err != nil {
		return nil, false, err
	}
	return s.kind.scaleOf(object), false, nil
}

func (s *scaleStorage) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, options)
}

func (k *Kind) scaleOf(object runtime.Object) *autoscalingv1.Scale {
	meta := accessor(object)
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              meta.GetName(),
			Namespace:         meta.GetNamespace(),
			UID:               meta.GetUID(),
			ResourceVersion:   meta.GetResourceVersion(),
			CreationTimestamp: meta.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{
			Replicas: k.scale.current(object),
			Selector: k.scale.selector(object),
		},
	}
	if replicas := *k.scale.replicas(object); replicas != nil {
		scale.Spec.Replicas = *replicas
	}
	return scale
}

// scaledObject turns the update of a Scale into one of the object behind it.
type scaledObject struct {
	rest.UpdatedObjectInfo
	kind *Kind
	name string
}

func (s *scaledObject) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	object := old.DeepCopyObject()
	meta := accessor(object)
	owners := managedfields.NewScaleHandler(meta.GetManagedFields(), s.kind.groupVersion, s.kind.replicasPath())

	before := s.kind.scaleOf(object)
	managed, err := owners.ToSubresource()
	if err != nil {
		return nil, err
	}
	before.ManagedFields = managed
	updated, err := s.UpdatedObjectInfo.UpdatedObject(ctx, before)
	if err != nil {
		return nil, err
	}
	scale, ok := updated.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a Scale, got %T", updated))
	}
	if err := s.check(scale, before); err != nil {
		return nil, err
	}

	*s.kind.scale.replicas(object) = &scale.Spec.Replicas
	meta.SetResourceVersion(scale.ResourceVersion)
	managed, err = owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	meta.SetManagedFields(managed)
	return object, nil
}

func (s *scaledObject) check(scale, before *autoscalingv1.Scale) error {
	if scale.UID != "" && scale.UID != before.UID {
		return apierrors.NewConflict(s.kind.groupResource(), s.name,
			fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", scale.UID, before.UID))
	}
	if scale.Spec.Replicas < 0 {
		return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), s.name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0")})
	}
	return nil
}

// onScale and onScaleUpdate show admission the Scale, not the object.
func onScale(kind *Kind, validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, object runtime.Object) error {
		return validate(ctx, kind.scaleOf(object))
	}
}

func onScaleUpdate(kind *Kind, validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, object, old runtime.Object) error {
		return validate(ctx, kind.scaleOf(object), kind.scaleOf(old))
	}
}
