package kinds

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/utils/ptr"
)

// firstClusterIP is where counting starts; 10.96.0.1 is the API server's own
// in a real cluster.
var firstClusterIP = netip.MustParseAddr("10.96.0.2")

// clusterIPs hands out service addresses by counting up. Nothing is ever
// handed back: a test does not live long enough to run out.
type clusterIPs struct {
	mu   sync.Mutex
	next netip.Addr
}

// assign is the store's BeginCreate hook: it gives a service its address.
func (c *clusterIPs) assign(store *registry.Store) registry.BeginCreateFunc {
	done := func(context.Context, bool) {}
	return func(ctx context.Context, object runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
		service := object.(*corev1.Service)
		spec := &service.Spec
		if spec.Type == corev1.ServiceTypeExternalName {
			return done, nil
		}
		if spec.ClusterIP == "" {
			ip, err := c.take(ctx, store)
			if err != nil {
				return nil, fmt.Errorf("assigning a cluster IP: %w", err)
			}
			spec.ClusterIP = ip.String()
		}
		spec.ClusterIPs = []string{spec.ClusterIP}
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}
		setDefaultPointer(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
		return done, nil
	}
}

func (c *clusterIPs) take(ctx context.Context, store *registry.Store) (netip.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.next.IsValid() {
		next, err := afterHighest(ctx, store)
		if err != nil {
			return netip.Addr{}, err
		}
		c.next = next
	}
	ip := c.next
	c.next = ip.Next()
	return ip, nil
}

// afterHighest is where to go on counting on a data directory that has been
// used before.
func afterHighest(ctx context.Context, store *registry.Store) (netip.Addr, error) {
	everywhere := genericapirequest.WithNamespace(ctx, metav1.NamespaceAll)
	list, err := store.List(everywhere, &metainternalversion.ListOptions{})
	if err != nil {
		return netip.Addr{}, err
	}
	next := firstClusterIP
	for _, service := range list.(*corev1.ServiceList).Items {
		ip, err := netip.ParseAddr(service.Spec.ClusterIP)
		if err == nil && ip.Is4() && isCounted(ip) && next.Compare(ip) <= 0 {
			next = ip.Next()
		}
	}
	return next, nil
}

// isCounted tells the counter's own range, 10.96.0.0/12, from addresses that
// a test chose elsewhere.
func isCounted(ip netip.Addr) bool {
	four := ip.As4()
	first := firstClusterIP.As4()
	return binary.BigEndian.Uint32(four[:])>>20 == binary.BigEndian.Uint32(first[:])>>20
}

// keepClusterIP carries the assigned address into an update that leaves it
// out, as a PUT of a manifest does.
func keepClusterIP(object, old runtime.Object) {
	service, before := object.(*corev1.Service), old.(*corev1.Service)
	if service.Spec.Type == corev1.ServiceTypeExternalName || before.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if service.Spec.ClusterIP == "" {
		service.Spec.ClusterIP = before.Spec.ClusterIP
		service.Spec.ClusterIPs = before.Spec.ClusterIPs
	}
	if len(service.Spec.IPFamilies) == 0 {
		service.Spec.IPFamilies = before.Spec.IPFamilies
	}
	if service.Spec.IPFamilyPolicy == nil && before.Spec.IPFamilyPolicy != nil {
		service.Spec.IPFamilyPolicy = ptr.To(*before.Spec.IPFamilyPolicy)
	}
}

func validateService(object, old runtime.Object) field.ErrorList {
	service := object.(*corev1.Service)
	spec := field.NewPath("spec")
	errs := field.ErrorList{}
	headless := service.Spec.ClusterIP == corev1.ClusterIPNone
	if len(service.Spec.Ports) == 0 && !headless && service.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(spec.Child("ports"), ""))
	}
	if old == nil {
		return errs
	}
	before := old.(*corev1.Service)
	changed := service.Spec.ClusterIP != before.Spec.ClusterIP
	if changed && service.Spec.Type != corev1.ServiceTypeExternalName && before.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Invalid(spec.Child("clusterIPs").Index(0), service.Spec.ClusterIP, "may not change once set"))
	}
	return errs
}
