package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	unionauthn "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	unionauthz "k8s.io/apiserver/pkg/authorization/union"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"

	"pilothouse.dev/tests/apiserver/internal/rbac"
)

// Authorization modes.
const (
	ModeAlwaysAllow = "always-allow"
	ModeRBAC        = "rbac"
)

// adminToken returns the token of the built-in admin. It lives as long as the
// data directory, so that a kubeconfig outlives a restart.
func adminToken(dataDir string) (string, error) {
	path := filepath.Join(dataDir, "admin-token")
	token, err := os.ReadFile(path)
	if err == nil {
		return string(token), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	fresh := rand.Text()
	return fresh, writeFile(path, []byte(fresh))
}

// newAuthenticator knows users by their tokens. Who brings no token is
// anonymous; who brings an unknown one is refused.
func newAuthenticator(admin string, tokens map[string]*user.DefaultInfo) authenticator.Request {
	known := map[string]*user.DefaultInfo{}
	maps.Copy(known, tokens)
	known[admin] = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	return unionauthn.NewFailOnError(
		group.NewAuthenticatedGroupAdder(bearertoken.New(tokenfile.New(known))),
		anonymous.NewAuthenticator([]apiserver.AnonymousAuthCondition{}),
	)
}

func newAuthorizer(mode string, factory informers.SharedInformerFactory) (authorizer.Authorizer, error) {
	admins := unionauthz.NamedAuthorizer{
		AuthorizerName: "admins",
		Authorizer:     authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
	}
	others := unionauthz.NamedAuthorizer{AuthorizerName: mode}
	switch mode {
	case ModeAlwaysAllow:
		others.Authorizer = authorizer.AuthorizerFunc(allowKnown)
	case ModeRBAC:
		others.Authorizer = rbac.NewAuthorizer(factory.Rbac().V1())
	default:
		return nil, fmt.Errorf("unknown authorization mode %q", mode)
	}
	return unionauthz.New(admins, others)
}

// allowKnown allows everyone with a token everything, and everyone else what
// a probe needs.
func allowKnown(_ context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(request.GetUser().GetGroups(), user.AllAuthenticated) {
		return authorizer.DecisionAllow, "", nil
	}
	if !request.IsResourceRequest() && slices.Contains(publicPaths, request.GetPath()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "anonymous", nil
}

var publicPaths = []string{"/healthz", "/livez", "/readyz", "/version"}

// adminOnly guards what is outside the Kubernetes API in either mode.
func adminOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known := genericapirequest.UserFrom(r.Context())
		if !known || !slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
			http.Error(w, "for members of "+user.SystemPrivilegedGroup+" only", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
