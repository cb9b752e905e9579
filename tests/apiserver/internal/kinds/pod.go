package kinds

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func preparePod(object runtime.Object) {
	pod := object.(*corev1.Pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
}

// keepPodOwners leaves ownership to writers of the pod itself.
func keepPodOwners(object, old runtime.Object) {
	object.(*corev1.Pod).OwnerReferences = old.(*corev1.Pod).OwnerReferences
}

// podGracePeriod is how long a deleted pod stays. Only a pod that a node may
// be running has to wait for that node to say it has stopped.
func podGracePeriod(object runtime.Object, options *metav1.DeleteOptions) int64 {
	pod := object.(*corev1.Pod)
	if pod.Spec.NodeName == "" || isFinished(pod) {
		return 0
	}
	period := int64(0)
	switch {
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		return 1
	}
	return period
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func validatePod(object, old runtime.Object) field.ErrorList {
	pod := object.(*corev1.Pod)
	spec := field.NewPath("spec")
	if old == nil {
		return validateContainers(pod.Spec.Containers, spec.Child("containers"))
	}
	if !apiequality.Semantic.DeepEqual(fixedPodSpec(pod, pod), fixedPodSpec(old.(*corev1.Pod), pod)) {
		return field.ErrorList{field.Forbidden(spec, "pod updates may not change fields other than "+
			"`spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "+
			"`spec.tolerations` or `spec.terminationGracePeriodSeconds`")}
	}
	return nil
}

// fixedPodSpec returns the spec of a pod with every field that an update may
// change taken from another, so that equal results mean a legal update.
func fixedPodSpec(pod, other *corev1.Pod) *corev1.PodSpec {
	spec := pod.Spec.DeepCopy()
	copyImages(spec.Containers, other.Spec.Containers)
	copyImages(spec.InitContainers, other.Spec.InitContainers)
	spec.ActiveDeadlineSeconds = other.Spec.ActiveDeadlineSeconds
	spec.TerminationGracePeriodSeconds = other.Spec.TerminationGracePeriodSeconds
	spec.Tolerations = other.Spec.Tolerations
	spec.SchedulingGates = other.Spec.SchedulingGates
	return spec
}

func copyImages(to, from []corev1.Container) {
	for i := range min(len(to), len(from)) {
		to[i].Image = from[i].Image
	}
}

func validateContainers(containers []corev1.Container, path *field.Path) field.ErrorList {
	errs := field.ErrorList{}
	if len(containers) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	for i, container := range containers {
		if container.Name == "" {
			errs = append(errs, field.Required(path.Index(i).Child("name"), ""))
		}
	}
	return errs
}

// pullPolicy is Always for an image that may change under its name.
func pullPolicy(image string) corev1.PullPolicy {
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	name := image[strings.LastIndex(image, "/")+1:]
	if _, tag, tagged := strings.Cut(name, ":"); tagged && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}
