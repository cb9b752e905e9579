package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// keepDeploymentLabels is true to upstream, where no other kind does this.
func keepDeploymentLabels(object, old runtime.Object) {
	object.(*appsv1.Deployment).Labels = old.(*appsv1.Deployment).Labels
}

// validateWorkload catches the mistake that would let a controller create
// pods without end: a selector that its own template does not match.
func validateWorkload(object, _ runtime.Object) field.ErrorList {
	selector, template := selectorAndTemplate(object)
	spec := field.NewPath("spec")
	if selector == nil {
		return field.ErrorList{field.Required(spec.Child("selector"), "")}
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return field.ErrorList{field.Invalid(spec.Child("selector"), selector, err.Error())}
	}
	errs := field.ErrorList{}
	if parsed.Empty() {
		errs = append(errs, field.Invalid(spec.Child("selector"), selector, "empty selector is invalid for "+kindOf(object)))
	}
	if !parsed.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(spec.Child("template", "metadata", "labels"), template.Labels,
			"`selector` does not match template `labels`"))
	}
	return append(errs, validateContainers(template.Spec.Containers, spec.Child("template", "spec", "containers"))...)
}

func selectorAndTemplate(object runtime.Object) (*metav1.LabelSelector, *corev1.PodTemplateSpec) {
	selector := structField(object, "Spec.Selector").Interface().(*metav1.LabelSelector)
	template := structField(object, "Spec.Template").Addr().Interface().(*corev1.PodTemplateSpec)
	return selector, template
}

// prepareJob gives a job the selector and the labels that tell its pods from
// those of every other job.
func prepareJob(object runtime.Object) {
	job := object.(*batchv1.Job)
	if job.Spec.ManualSelector != nil && *job.Spec.ManualSelector {
		return
	}
	template := &job.Spec.Template.ObjectMeta
	for _, name := range []string{"job-name", batchv1.JobNameLabel} {
		metav1.SetMetaDataLabel(template, name, job.Name)
	}
	for _, name := range []string{"controller-uid", batchv1.ControllerUidLabel} {
		metav1.SetMetaDataLabel(template, name, string(job.UID))
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	metav1.AddLabelToSelector(job.Spec.Selector, batchv1.ControllerUidLabel, string(job.UID))
}
