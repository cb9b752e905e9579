package kinds

import (
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxCronJobName leaves room for the eleven characters that the controller
// appends to name a job.
const maxCronJobName = validation.DNS1035LabelMaxLength - 11

func nameIsCronJob(name string, prefix bool) []string {
	problems := apivalidation.NameIsDNSSubdomain(name, prefix)
	if len(name) > maxCronJobName {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters", maxCronJobName))
	}
	return problems
}

func validateConfigMap(object, old runtime.Object) field.ErrorList {
	config := object.(*corev1.ConfigMap)
	errs := field.ErrorList{}
	size := 0
	for key, value := range config.Data {
		errs = append(errs, validateDataKey(key, field.NewPath("data"))...)
		if _, twice := config.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range config.BinaryData {
		errs = append(errs, validateDataKey(key, field.NewPath("binaryData"))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	if old == nil {
		return errs
	}
	before := old.(*corev1.ConfigMap)
	return append(errs, validateFrozen(before.Immutable, config.Immutable,
		[]any{config.Data, config.BinaryData}, []any{before.Data, before.BinaryData})...)
}

func validateSecret(object, old runtime.Object) field.ErrorList {
	secret := object.(*corev1.Secret)
	errs := field.ErrorList{}
	size := 0
	for key, value := range secret.Data {
		errs = append(errs, validateDataKey(key, field.NewPath("data"))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize))
	}
	if old == nil {
		return errs
	}
	before := old.(*corev1.Secret)
	return append(errs, validateFrozen(before.Immutable, secret.Immutable, []any{secret.Data}, []any{before.Data})...)
}

func validateDataKey(key string, path *field.Path) field.ErrorList {
	errs := field.ErrorList{}
	for _, problem := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Key(key), key, problem))
	}
	return errs
}

// validateFrozen holds a ConfigMap or Secret to its own `immutable: true`.
func validateFrozen(wasFrozen, isFrozen *bool, data, dataBefore []any) field.ErrorList {
	if wasFrozen == nil || !*wasFrozen {
		return nil
	}
	errs := field.ErrorList{}
	const frozen = "field is immutable when `immutable` is set"
	if isFrozen == nil || !*isFrozen {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), frozen))
	}
	if !apiequality.Semantic.DeepEqual(data, dataBefore) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), frozen))
	}
	return errs
}

func validateLease(object, _ runtime.Object) field.ErrorList {
	lease := object.(*coordinationv1.Lease)
	spec := field.NewPath("spec")
	errs := field.ErrorList{}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(spec.Child("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	if transitions := lease.Spec.LeaseTransitions; transitions != nil && *transitions < 0 {
		errs = append(errs, field.Invalid(spec.Child("leaseTransitions"), *transitions, "must be greater than or equal to 0"))
	}
	return errs
}

// mergeSecretStringData moves the write-only stringData into data.
func mergeSecretStringData(object runtime.Object) {
	secret := object.(*corev1.Secret)
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

func mergeSecretStringDataOnUpdate(object, _ runtime.Object) { mergeSecretStringData(object) }

func kindOf(object runtime.Object) string {
	name := fmt.Sprintf("%T", object)
	return strings.ToLower(name[strings.LastIndex(name, ".")+1:])
}
