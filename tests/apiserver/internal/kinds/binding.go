package kinds

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

func (h Handlers) addPodActions(stores map[schema.GroupResource]*genericregistry.Store) {
	core := corev1.SchemeGroupVersion
	pods := stores[schema.GroupResource{Resource: "pods"}]
	budgets := stores[schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}]
	h.add(core, "pods/binding", &bindingStorage{pods: unchecked(pods)})
	h.add(core, "pods/eviction", &evictionStorage{pods: pods, budgets: unchecked(budgets)})
}

// unchecked returns a store whose updates the server itself makes: they skip
// the rules for what clients may change.
func unchecked(main *genericregistry.Store) *genericregistry.Store {
	store := *main
	store.UpdateStrategy = serverStrategy{main.UpdateStrategy.(strategy)}
	return &store
}

type serverStrategy struct {
	strategy
}

func (serverStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}

func (serverStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// bindingStorage serves pods/binding, with which a scheduler places a pod.
type bindingStorage struct {
	pods *genericregistry.Store
}

func (s *bindingStorage) New() runtime.Object { return &corev1.Binding{} }

// Destroy does nothing: the storage belongs to pods.
func (s *bindingStorage) Destroy() {}

func (s *bindingStorage) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	binding, ok := object.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding: %T", object))
	}
	if binding.Name != name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(binding); len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), name, errs)
	}
	if validate != nil {
		if err := validate(ctx, binding.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	place := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		pod := old.DeepCopyObject().(*corev1.Pod)
		return pod, bind(pod, binding)
	}
	_, _, err := s.pods.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, place),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun})
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
}

func validateBinding(binding *corev1.Binding) field.ErrorList {
	target := field.NewPath("target")
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		return field.ErrorList{field.NotSupported(target.Child("kind"), kind, []string{"Node", "<empty>"})}
	}
	if binding.Target.Name == "" {
		return field.ErrorList{field.Required(target.Child("name"), "")}
	}
	return nil
}

// bind places a pod that no node has yet.
func bind(pod *corev1.Pod, binding *corev1.Binding) error {
	conflict := func(reason string) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, fmt.Errorf("%s", reason))
	}
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return conflict(fmt.Sprintf("UID in the precondition (%s) does not match the UID in record (%s)", binding.UID, pod.UID))
	case pod.DeletionTimestamp != nil:
		return conflict(fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", pod.Name))
	case pod.Spec.NodeName != "":
		return conflict(fmt.Sprintf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	for key, value := range binding.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return nil
}

func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	condition.LastTransitionTime = metav1.Now()
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition.Type {
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
