package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestRuleCoversOnlyWhatItNames(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	anyStatus := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*/status"}}
	oneName := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}}
	apis := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/apis/*"}}

	for name, test := range map[string]struct {
		rule    rbacv1.PolicyRule
		request authorizer.AttributesRecord
		covered bool
	}{
		"the resource":              {pods, resource("get", "", "pods", "", ""), true},
		"another verb":              {pods, resource("list", "", "pods", "", ""), false},
		"another group":             {pods, resource("get", "apps", "pods", "", ""), false},
		"a subresource is apart":    {pods, resource("get", "", "pods", "status", ""), false},
		"a subresource of anything": {anyStatus, resource("patch", "apps", "deployments", "status", ""), true},
		"not the resource itself":   {anyStatus, resource("patch", "apps", "deployments", "", ""), false},
		"the name":                  {oneName, resource("get", "", "pods", "", "a"), true},
		"another name":              {oneName, resource("get", "", "pods", "", "b"), false},
		"no name":                   {oneName, resource("get", "", "pods", "", ""), false},
		"a path":                    {apis, authorizer.AttributesRecord{Verb: "get", Path: "/apis/apps"}, true},
		"a path outside":            {apis, authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}, false},
		"a resource by path rule":   {apis, resource("get", "", "pods", "", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			if covers(test.rule, test.request) != test.covered {
				t.Errorf("covered: %v, want %v", !test.covered, test.covered)
			}
		})
	}
}

func TestServiceAccountIsLookedForInItsNamespace(t *testing.T) {
	who := &user.DefaultInfo{Name: "system:serviceaccount:team:robot"}
	robot := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "robot"}}
	if !includes(robot, who, "team") {
		t.Error("not found in the namespace of the binding")
	}
	if includes(robot, who, "other") {
		t.Error("found in a namespace it is not in")
	}
}

func TestServiceAccountIsNotLookedForInTheNamespaceOfAnotherSubject(t *testing.T) {
	who := &user.DefaultInfo{Name: "system:serviceaccount:team:robot"}
	subjects := []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Name: "another", Namespace: "team"},
		{Kind: rbacv1.ServiceAccountKind, Name: "robot"},
	}
	if includes(subjects, who, "other") {
		t.Error("found in the namespace of the subject before it")
	}
	who = &user.DefaultInfo{Name: "system:serviceaccount:other:robot"}
	if !includes(subjects, who, "other") {
		t.Error("not found in the namespace of the binding")
	}
}

func resource(verb, group, resource, subresource, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: resource,
		Subresource: subresource, Name: name, ResourceRequest: true}
}
