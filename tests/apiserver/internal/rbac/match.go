package rbac

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// includes tells whether a binding's subjects include the user. A service
// account that names no namespace is one of the binding's own.
func includes(subjects []rbacv1.Subject, who user.Info, namespace string) bool {
	return slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
		switch subject.Kind {
		case rbacv1.UserKind:
			return who.GetName() == subject.Name
		case rbacv1.GroupKind:
			return slices.Contains(who.GetGroups(), subject.Name)
		case rbacv1.ServiceAccountKind:
			of := cmp.Or(subject.Namespace, namespace)
			return of != "" && serviceaccount.MatchesUsername(of, subject.Name, who.GetName())
		default:
			return false
		}
	})
}

func anyCovers(rules []rbacv1.PolicyRule, request authorizer.Attributes) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return covers(rule, request) })
}

func covers(rule rbacv1.PolicyRule, request authorizer.Attributes) bool {
	if !hasOrAll(rule.Verbs, request.GetVerb()) {
		return false
	}
	if !request.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool {
			return matchesPath(pattern, request.GetPath())
		})
	}
	return hasOrAll(rule.APIGroups, request.GetAPIGroup()) &&
		matchesResource(rule.Resources, request.GetResource(), request.GetSubresource()) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, request.GetName()))
}

func hasOrAll(allowed []string, asked string) bool {
	return slices.Contains(allowed, asked) || slices.Contains(allowed, "*")
}

// matchesResource knows `*`, `pods`, `pods/status` and `*/status`.
func matchesResource(allowed []string, resource, subresource string) bool {
	if subresource == "" {
		return hasOrAll(allowed, resource)
	}
	return hasOrAll(allowed, resource+"/"+subresource) || slices.Contains(allowed, "*/"+subresource)
}

// matchesPath knows `*` at the end of a path only.
func matchesPath(pattern, path string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	if open {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
