package kinds

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/util/retry"
)

// evictionStorage serves pods/eviction: a deletion that the disruption budget
// of the pod must allow.
type evictionStorage struct {
	pods    *genericregistry.Store
	budgets *genericregistry.Store
}

func (s *evictionStorage) New() runtime.Object { return &policyv1.Eviction{} }

// Destroy does nothing: the storage belongs to pods.
func (s *evictionStorage) Destroy() {}

func (s *evictionStorage) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

func (s *evictionStorage) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := object.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not an Eviction: %T", object))
	}
	if eviction.Name != name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	found, err := s.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	options := eviction.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if pod := found.(*corev1.Pod); needsBudget(pod) {
		if err := s.spendBudget(ctx, pod, options); err != nil {
			return nil, err
		}
	}
	if _, _, err := s.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, options); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
}

// needsBudget is false for a pod whose loss disrupts nothing.
func needsBudget(pod *corev1.Pod) bool {
	return !isFinished(pod) && pod.Status.Phase != corev1.PodPending && pod.DeletionTimestamp.IsZero()
}

func (s *evictionStorage) spendBudget(ctx context.Context, pod *corev1.Pod, options *metav1.DeleteOptions) error {
	budgets, err := s.budgetsOf(ctx, pod)
	if err != nil {
		return err
	}
	switch len(budgets) {
	case 0:
		return nil
	case 1:
		if mayGoUnready(pod, &budgets[0]) {
			return nil
		}
		return s.spend(ctx, budgets[0].Name, pod.Name, options)
	default:
		return apierrors.NewInternalError(fmt.Errorf(
			"this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"))
	}
}

// mayGoUnready is true for a pod that is not ready and that the budget lets go
// for that: it is none of those that the budget counts on.
func mayGoUnready(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return false
		}
	}
	policy, status := budget.Spec.UnhealthyPodEvictionPolicy, budget.Status
	always := policy != nil && *policy == policyv1.AlwaysAllow
	return always || (status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0)
}

func (s *evictionStorage) budgetsOf(ctx context.Context, pod *corev1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	list, err := s.budgets.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	matching := []policyv1.PodDisruptionBudget{}
	for _, budget := range list.(*policyv1.PodDisruptionBudgetList).Items {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, budget)
		}
	}
	return matching, nil
}

// spend counts one disruption against the budget before the pod goes; what
// keeps the count in step with the pods is a controller, which is not here.
func (s *evictionStorage) spend(ctx context.Context, name, podName string, options *metav1.DeleteOptions) error {
	update := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		budget := old.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		if err := checkBudget(budget); err != nil {
			return nil, err
		}
		budget.Status.DisruptionsAllowed--
		if budget.Status.DisruptedPods == nil {
			budget.Status.DisruptedPods = map[string]metav1.Time{}
		}
		budget.Status.DisruptedPods[podName] = metav1.Now()
		return budget, nil
	}
	if dryrun.IsDryRun(options.DryRun) {
		budget, err := s.budgets.Get(ctx, name, &metav1.GetOptions{})
		if err != nil {
			return err
		}
		return checkBudget(budget.(*policyv1.PodDisruptionBudget))
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		_, _, err := s.budgets.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, update),
			rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		return err
	})
}

func checkBudget(budget *policyv1.PodDisruptionBudget) error {
	message := ""
	switch {
	case budget.Status.ObservedGeneration < budget.Generation:
		message = fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name)
	case budget.Status.DisruptionsAllowed <= 0:
		message = fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy)
	default:
		return nil
	}
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return refusal
}
