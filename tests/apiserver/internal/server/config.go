package server

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"pilothouse.dev/tests/apiserver/internal/kinds"
	"pilothouse.dev/tests/apiserver/internal/openapi"
)

// storagePrefix is what every key in etcd begins with.
const storagePrefix = "/registry"

// config is what the parts of one server are made from.
type config struct {
	generic *genericapiserver.RecommendedConfig
	custom  apiextensions.ExtraConfig
	// builtIn is how to store the built-in kinds. The generic config's own
	// getter is for CustomResourceDefinitions, which have another codec.
	builtIn generic.RESTOptionsGetter
}

func newConfig(chosen Options, admin string, etcd *embed.Etcd) (*config, error) {
	common := genericapiserver.NewRecommendedConfig(apiextensions.Codecs)
	common.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	common.MergedResourceConfig = apiextensions.DefaultAPIResourceConfigSource()
	applyOpenAPI(common)
	if err := applyServing(common, chosen); err != nil {
		return nil, fmt.Errorf("preparing to listen: %w", err)
	}
	client, err := kubernetes.NewForConfig(common.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	const noResync = 0
	common.SharedInformerFactory = informers.NewSharedInformerFactory(client, noResync)
	if err := applyAccess(common, chosen, admin); err != nil {
		return nil, err
	}
	common.AdmissionControl, err = newAdmission(client, common.SharedInformerFactory)
	if err != nil {
		return nil, fmt.Errorf("preparing admission: %w", err)
	}
	storage := storageOptions(chosen, etcd, common)
	if err := storage.ApplyTo(&common.Config); err != nil {
		return nil, fmt.Errorf("preparing storage: %w", err)
	}
	return &config{
		generic: common,
		custom:  customResources(storage, common),
		builtIn: storage.CreateRESTOptionsGetter(storageFactory(storage), nil),
	}, nil
}

// applyServing listens at once, so that a port which is taken fails early. The
// certificate stays in the data directory and outlives a restart.
func applyServing(common *genericapiserver.RecommendedConfig, chosen Options) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", chosen.Port))
	if err != nil {
		return err
	}
	serving := options.NewSecureServingOptions()
	serving.Listener = listener
	serving.BindAddress = net.IPv4(127, 0, 0, 1)
	serving.ServerCert.CertDirectory = filepath.Join(chosen.DataDir, "certificates")
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{serving.BindAddress}); err != nil {
		return err
	}
	if err := serving.WithLoopback().ApplyToConfig(&common.Config); err != nil {
		return err
	}
	common.ExternalAddress = listener.Addr().String()
	common.LoopbackClientConfig.UserAgent = loopbackAgent
	return nil
}

func applyAccess(common *genericapiserver.RecommendedConfig, chosen Options, admin string) error {
	authorizer, err := newAuthorizer(chosen.AuthorizationMode, common.SharedInformerFactory)
	if err != nil {
		return err
	}
	common.Authorization.Authorizer = authorizer
	common.Authentication.Authenticator = newAuthenticator(admin, chosen.Tokens)
	return nil
}

// newAdmission has the one plugin without which objects outlive their
// namespace: NamespaceLifecycle.
func newAdmission(client kubernetes.Interface, factory informers.SharedInformerFactory) (admission.Interface, error) {
	plugin, err := lifecycle.NewLifecycle(sets.New(immortalNamespaces...))
	if err != nil {
		return nil, err
	}
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(factory)
	return plugin, plugin.ValidateInitialization()
}

func applyOpenAPI(common *genericapiserver.RecommendedConfig) {
	definitions := utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(openapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(kinds.Scheme, apiextensions.Scheme)
	common.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	common.OpenAPIConfig.Info.Title = "Kubernetes"
	common.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	common.OpenAPIV3Config.Info.Title = "Kubernetes"
}

func storageOptions(chosen Options, etcd *embed.Etcd, common *genericapiserver.RecommendedConfig) *options.EtcdOptions {
	backend := storagebackend.NewDefaultConfig(storagePrefix, apiextensions.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	backend.Transport.ServerList = []string{etcdEndpoint(etcd)}
	backend.CompactionInterval = chosen.CompactionInterval
	backend.StorageObjectCountTracker = common.StorageObjectCountTracker
	storage := options.NewEtcdOptions(backend)
	storage.EnableWatchCache = chosen.WatchCache
	return storage
}

// storageFactory stores the built-in kinds as the real server does: in
// protobuf, each in its group's version, and both kinds of Event in one place.
func storageFactory(storage *options.EtcdOptions) serverstorage.StorageFactory {
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(schema.GroupVersion{Version: "v1"})
	factory := serverstorage.NewDefaultStorageFactory(storage.StorageConfig, runtime.ContentTypeProtobuf, kinds.Codecs,
		serverstorage.NewDefaultResourceEncodingConfig(kinds.Scheme), enabled, nil)
	factory.AddCohabitatingResources(
		schema.GroupResource{Resource: "events"},
		schema.GroupResource{Group: "events.k8s.io", Resource: "events"})
	return factory
}

func customResources(storage *options.EtcdOptions, common *genericapiserver.RecommendedConfig) apiextensions.ExtraConfig {
	return apiextensions.ExtraConfig{
		CRDRESTOptionsGetter: apiextensionsoptions.NewCRDRESTOptionsGetter(*storage, nil, common.StorageObjectCountTracker),
		MasterCount:          1,
		ServiceResolver:      noServices{},
		AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(
			nil, nil, common.LoopbackClientConfig, noopoteltrace.NewTracerProvider()),
	}
}

// noServices resolves no conversion webhook by service: nothing routes to
// services here. A webhook by URL works.
type noServices struct{}

func (noServices) ResolveEndpoint(namespace, name string, _ int32) (*url.URL, error) {
	return nil, fmt.Errorf("service %s/%s: nothing routes to services on this server", namespace, name)
}
