// Package rbac decides requests from the roles and bindings that the server
// itself stores. It only ever allows: what no rule covers is left to the next
// authorizer, and in the end denied.
package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	informers "k8s.io/client-go/informers/rbac/v1"
	listers "k8s.io/client-go/listers/rbac/v1"
)

// reader reads roles and bindings from informers, so a new one takes effect a
// moment after it is written, as in the real server.
type reader struct {
	roles               listers.RoleLister
	clusterRoles        listers.ClusterRoleLister
	roleBindings        listers.RoleBindingLister
	clusterRoleBindings listers.ClusterRoleBindingLister
}

// NewAuthorizer registers its informers; the caller starts them.
func NewAuthorizer(factory informers.Interface) authorizer.Authorizer {
	stored := &reader{
		roles:               factory.Roles().Lister(),
		clusterRoles:        factory.ClusterRoles().Lister(),
		roleBindings:        factory.RoleBindings().Lister(),
		clusterRoleBindings: factory.ClusterRoleBindings().Lister(),
	}
	return authorizer.AuthorizerFunc(stored.authorize)
}

func (r *reader) authorize(_ context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	reason, err := r.allowedAnywhere(request)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	if reason == "" && request.GetNamespace() != "" {
		reason, err = r.allowedInNamespace(request)
		if err != nil {
			return authorizer.DecisionNoOpinion, "", err
		}
	}
	if reason == "" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, reason, nil
}

// allowedAnywhere returns the reason why a ClusterRoleBinding allows the
// request, or an empty string.
func (r *reader) allowedAnywhere(request authorizer.Attributes) (string, error) {
	bindings, err := r.clusterRoleBindings.List(labels.Everything())
	if err != nil {
		return "", err
	}
	for _, binding := range bindings {
		if !includes(binding.Subjects, request.GetUser(), "") {
			continue
		}
		rules, err := r.rulesOf(binding.RoleRef, "")
		if err != nil {
			return "", err
		}
		if anyCovers(rules, request) {
			return fmt.Sprintf("RBAC: allowed by ClusterRoleBinding %q of %s %q", binding.Name, binding.RoleRef.Kind, binding.RoleRef.Name), nil
		}
	}
	return "", nil
}

// allowedInNamespace does the same for the RoleBindings of its namespace.
func (r *reader) allowedInNamespace(request authorizer.Attributes) (string, error) {
	namespace := request.GetNamespace()
	bindings, err := r.roleBindings.RoleBindings(namespace).List(labels.Everything())
	if err != nil {
		return "", err
	}
	for _, binding := range bindings {
		if !includes(binding.Subjects, request.GetUser(), namespace) {
			continue
		}
		rules, err := r.rulesOf(binding.RoleRef, namespace)
		if err != nil {
			return "", err
		}
		if anyCovers(rules, request) {
			return fmt.Sprintf("RBAC: allowed by RoleBinding %q of %s %q", namespace+"/"+binding.Name, binding.RoleRef.Kind, binding.RoleRef.Name), nil
		}
	}
	return "", nil
}

// rulesOf follows a reference. One that leads nowhere grants nothing.
func (r *reader) rulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		role, err := r.roles.Roles(namespace).Get(ref.Name)
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		return role.Rules, nil
	case "ClusterRole":
		role, err := r.clusterRoles.Get(ref.Name)
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		return role.Rules, nil
	default:
		return nil, nil
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
