package kinds

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Scheme knows the served types. Each published type is its own internal
// type, so that no conversion code is needed; an Event of events.k8s.io, the
// one kind served in two shapes, is kept as an Event of the core group.
var (
	Scheme         = runtime.NewScheme()
	Codecs         = serializer.NewCodecFactory(Scheme)
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

// groupVersions is every served group version, in the order of discovery.
var groupVersions = []schema.GroupVersion{
	corev1.SchemeGroupVersion,
	appsv1.SchemeGroupVersion,
	eventsv1.SchemeGroupVersion,
	authorizationv1.SchemeGroupVersion,
	autoscalingv2.SchemeGroupVersion,
	batchv1.SchemeGroupVersion,
	networkingv1.SchemeGroupVersion,
	policyv1.SchemeGroupVersion,
	rbacv1.SchemeGroupVersion,
	storagev1.SchemeGroupVersion,
	schedulingv1.SchemeGroupVersion,
	coordinationv1.SchemeGroupVersion,
	discoveryv1.SchemeGroupVersion,
}

func init() {
	metav1.AddToGroupVersion(Scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(metainternalversion.AddToScheme(Scheme))
	published := runtime.NewSchemeBuilder(
		corev1.AddToScheme, appsv1.AddToScheme, eventsv1.AddToScheme, authorizationv1.AddToScheme,
		autoscalingv2.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, storagev1.AddToScheme, schedulingv1.AddToScheme, coordinationv1.AddToScheme,
		discoveryv1.AddToScheme, addScale,
	)
	utilruntime.Must(published.AddToScheme(Scheme))
	for _, groupVersion := range append(groupVersions, autoscalingv1.SchemeGroupVersion) {
		if groupVersion != eventsv1.SchemeGroupVersion {
			addInternal(Scheme, groupVersion)
		}
	}
	utilruntime.Must(addEvents(Scheme))
	utilruntime.Must(addFieldSelectors(Scheme))
	utilruntime.Must(Scheme.SetVersionPriority(autoscalingv2.SchemeGroupVersion, autoscalingv1.SchemeGroupVersion))
	addDefaults(Scheme)
}

// addScale adds the one type of autoscaling/v1 that is served: the body of
// every /scale.
func addScale(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(autoscalingv1.SchemeGroupVersion, &autoscalingv1.Scale{})
	metav1.AddToGroupVersion(scheme, autoscalingv1.SchemeGroupVersion)
	return nil
}

// addInternal registers the published types of a group a second time, as the
// group's internal ones.
func addInternal(scheme *runtime.Scheme, groupVersion schema.GroupVersion) {
	internal := schema.GroupVersion{Group: groupVersion.Group, Version: runtime.APIVersionInternal}
	for name, goType := range scheme.KnownTypes(groupVersion) {
		if strings.HasPrefix(goType.PkgPath(), "k8s.io/api/") {
			scheme.AddKnownTypeWithName(internal.WithKind(name), reflect.New(goType).Interface().(runtime.Object))
		}
	}
}
