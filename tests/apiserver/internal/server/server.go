// Package server joins the parts: etcd in the same process, the generic API
// server with the CRDs of apiextensions-apiserver, the built-in kinds, and
// the endpoints for tests.
package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	"pilothouse.dev/tests/apiserver/internal/kinds"
	"pilothouse.dev/tests/apiserver/internal/requests"
	"pilothouse.dev/tests/apiserver/internal/writes"
)

// shutdownTimeout bounds how long open requests may hold up the end.
const shutdownTimeout = 500 * time.Millisecond

// loopbackAgent is how the server's own clients call themselves.
const loopbackAgent = "pilothouse-apiserver-loopback"

// Options are what a test can choose.
type Options struct {
	DataDir            string
	Port               int
	WatchCache         bool
	AuthorizationMode  string
	Tokens             map[string]*user.DefaultInfo
	Kubeconfig         string
	CompactionInterval time.Duration
	// ProgressInterval is how often etcd tells watches how far it is.
	ProgressInterval time.Duration
	// RecordWrites keeps a journal of all changes.
	RecordWrites bool
}

// Server is an API server with its etcd.
type Server struct {
	etcd       *embed.Etcd
	generic    *genericapiserver.GenericAPIServer
	kubeconfig kubeconfig
}

// New starts etcd and puts the API server together, but does not serve yet.
func New(options Options) (*Server, error) {
	etcd, err := startEtcd(options.DataDir, options.ProgressInterval)
	if err != nil {
		return nil, err
	}
	server, err := assemble(options, etcd)
	if err != nil {
		etcd.Server.Stop()
		return nil, err
	}
	return server, nil
}

func assemble(options Options, etcd *embed.Etcd) (*Server, error) {
	admin, err := adminToken(options.DataDir)
	if err != nil {
		return nil, fmt.Errorf("reading the admin token: %w", err)
	}
	config, err := newConfig(options, admin, etcd)
	if err != nil {
		return nil, err
	}
	counter := requests.NewCounter(genericapiserver.NewRequestInfoResolver(&config.generic.Config), loopbackAgent)
	journal := writes.NewJournal(loopbackAgent)
	config.generic.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		if options.RecordWrites {
			handler = journal.Wrap(handler)
		}
		return counter.Wrap(genericapiserver.DefaultBuildHandlerChain(handler, c))
	}

	generic, err := install(config)
	if err != nil {
		return nil, err
	}
	generic.ShutdownTimeout = shutdownTimeout
	mux := generic.Handler.NonGoRestfulMux
	mux.Handle("/testing/requests", adminOnly(counter))
	mux.Handle("/testing/writes", adminOnly(journal))
	mux.Handle("/testing/compact", adminOnly(newCompaction(etcd)))

	certificate, _ := config.generic.SecureServing.Cert.CurrentCertKeyContent()
	return &Server{etcd: etcd, generic: generic, kubeconfig: kubeconfig{
		path:   options.Kubeconfig,
		server: "https://" + config.generic.SecureServing.Listener.Addr().String(),
		ca:     certificate,
		token:  admin,
	}}, nil
}

// install adds the built-in kinds to the server of the custom ones: one
// server has one discovery and one OpenAPI document.
func install(config *config) (*genericapiserver.GenericAPIServer, error) {
	completed := (&apiextensions.Config{GenericConfig: config.generic, ExtraConfig: config.custom}).Complete()
	// Complete() switches this off, as apiextensions expects an aggregator
	// in front.
	completed.GenericConfig.EnableDiscovery = true
	custom, err := completed.New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("creating the server: %w", err)
	}
	generic := custom.GenericAPIServer

	handlers, err := kinds.NewHandlers(config.builtIn, generic.Authorizer)
	if err != nil {
		return nil, err
	}
	core, others := handlers.Groups()
	if err := generic.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, core); err != nil {
		return nil, fmt.Errorf("installing the core group: %w", err)
	}
	if err := generic.InstallAPIGroups(others...); err != nil {
		return nil, fmt.Errorf("installing the other groups: %w", err)
	}

	listCustomGroups(generic, custom.Informers)
	return generic, generic.AddPostStartHook("bootstrap-objects", bootstrap)
}

// Run serves until the context ends. It announces the server once it is ready.
//
// A server told to stop before that has nothing to finish and is left as it
// is: the library's own start hooks end the process when they are cancelled.
func (s *Server) Run(ctx context.Context, announce func(url string)) error {
	// Stop closes the storage. Close would also wait for etcd's clients to
	// hang up, which those of the watch caches never do.
	defer s.etcd.Server.Stop()
	stop, served := make(chan struct{}), make(chan error, 1)
	starting, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	go func() {
		err := s.generic.PrepareRun().RunWithContext(wait.ContextForChannel(stop))
		ended(err)
		served <- err
	}()

	if err := s.announceReady(starting, announce); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
		close(stop)
		return <-served
	case err := <-served:
		return err
	}
}

func (s *Server) announceReady(ctx context.Context, announce func(url string)) error {
	if err := s.waitReady(ctx); err != nil {
		return err
	}
	if err := s.kubeconfig.write(); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	announce(s.kubeconfig.server)
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	const interval = 20 * time.Millisecond
	for {
		err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}
