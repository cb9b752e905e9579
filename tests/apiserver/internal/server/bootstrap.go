package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
)

var (
	// systemNamespaces are there from the start.
	systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
	// immortalNamespaces cannot be deleted.
	immortalNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
)

// systemRoles are those of the real server's roles that concern every client:
// full access, discovery, asking about one's own access, and probes.
var systemRoles = []struct {
	name   string
	rules  []rbacv1.PolicyRule
	groups []string
}{
	{
		name: "cluster-admin",
		rules: []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		},
		groups: []string{user.SystemPrivilegedGroup},
	},
	{
		name: "system:discovery",
		rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{
			"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/",
		}}},
		groups: []string{user.AllAuthenticated},
	},
	{
		name: "system:basic-user",
		rules: []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{
			"selfsubjectaccessreviews",
		}}},
		groups: []string{user.AllAuthenticated},
	},
	{
		name: "system:public-info-viewer",
		rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{
			"/healthz", "/livez", "/readyz", "/version", "/version/",
		}}},
		groups: []string{user.AllAuthenticated, user.AllUnauthenticated},
	},
}

// bootstrap creates what is missing of the objects a new cluster has.
func bootstrap(ctx genericapiserver.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(ctx.LoopbackClientConfig)
	if err != nil {
		return err
	}
	for _, name := range systemNamespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err := ignoreExisting(err); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	for _, role := range systemRoles {
		if err := bootstrapRole(ctx, client, role.name, role.rules, role.groups); err != nil {
			return fmt.Errorf("creating role %s: %w", role.name, err)
		}
	}
	return nil
}

func bootstrapRole(ctx context.Context, client kubernetes.Interface, name string, rules []rbacv1.PolicyRule, groups []string) error {
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err := ignoreExisting(err); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	for _, group := range groups {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return ignoreExisting(err)
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
