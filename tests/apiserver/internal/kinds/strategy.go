package kinds

import (
	"context"
	"reflect"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy is what the main resource of every kind does around a write.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind *Kind
}

func (s strategy) NamespaceScoped() bool { return s.kind.namespaced }

func (s strategy) AllowCreateOnUpdate(context.Context) bool { return s.kind.createOnUpdate }

func (s strategy) AllowUnconditionalUpdate(context.Context) bool { return !s.kind.needsVersion }

func (s strategy) Canonicalize(runtime.Object) {}

func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (s strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return s.kind.deletionPolicy()
}

// GetResetFields tells server-side apply which fields a writer of the main
// resource cannot come to own.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.kind.hasStatus {
		return nil
	}
	return resetField(s.kind, "status")
}

func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if s.kind.hasStatus {
		structField(object, "Status").SetZero()
	}
	if s.kind.hasGeneration {
		accessor(object).SetGeneration(1)
	}
	if s.kind.onCreate != nil {
		s.kind.onCreate(object)
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if s.kind.hasStatus {
		structField(object, "Status").Set(structField(old, "Status"))
	}
	if s.kind.onUpdate != nil {
		s.kind.onUpdate(object, old)
	}
	if s.kind.hasGeneration && s.isNewGeneration(object, old) {
		accessor(object).SetGeneration(accessor(old).GetGeneration() + 1)
	}
}

// isNewGeneration compares all that is neither metadata nor status; both are
// equal already or of no account here.
func (s strategy) isNewGeneration(object, old runtime.Object) bool {
	if s.kind.annotationsCount &&
		!apiequality.Semantic.DeepEqual(accessor(object).GetAnnotations(), accessor(old).GetAnnotations()) {
		return true
	}
	return !apiequality.Semantic.DeepEqual(withoutMeta(object), withoutMeta(old))
}

func (s strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	validName := s.kind.validName
	if validName == nil {
		validName = apivalidation.NameIsDNSSubdomain
	}
	errs := apivalidation.ValidateObjectMetaAccessor(accessor(object), s.kind.namespaced, validName, field.NewPath("metadata"))
	if s.kind.validate != nil {
		errs = append(errs, s.kind.validate(object, nil)...)
	}
	return errs
}

// ValidateUpdate leaves metadata to the registry, which checks it for every
// update.
func (s strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	errs := field.ErrorList{}
	for _, path := range s.kind.immutable {
		errs = append(errs, apivalidation.ValidateImmutableField(
			structField(object, path).Interface(), structField(old, path).Interface(), jsonPath(path))...)
	}
	if s.kind.validate != nil {
		errs = append(errs, s.kind.validate(object, old)...)
	}
	return errs
}

// gracefulStrategy adds graceful deletion to the kinds that have it. It is a
// type of its own because the registry asks by type.
type gracefulStrategy struct {
	strategy
}

func (s gracefulStrategy) CheckGracefulDelete(_ context.Context, object runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	period := s.kind.gracePeriod(object, options)
	options.GracePeriodSeconds = &period
	return true
}

// statusStrategy is what a write to /status does: all but the status, and
// most of the metadata, stays as it was.
type statusStrategy struct {
	strategy
}

func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetField(s.kind, "spec")
}

func (s statusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	structField(object, "Spec").Set(structField(old, "Spec"))
	if s.kind.onStatusUpdate != nil {
		s.kind.onStatusUpdate(object, old)
	}
}

func (s statusStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

func resetField(k *Kind, name string) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(k.groupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie(name)),
	}
}

// accessor is for objects of the table, all of which have metadata.
func accessor(object runtime.Object) metav1.Object {
	meta, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return meta
}

// structField follows a dotted path of Go fields, such as "Spec.Selector".
func structField(object runtime.Object, path string) reflect.Value {
	value := reflect.ValueOf(object).Elem()
	for _, name := range strings.Split(path, ".") {
		value = value.FieldByName(name)
	}
	return value
}

func jsonPath(path string) *field.Path {
	var at *field.Path
	for _, name := range strings.Split(path, ".") {
		at = at.Child(strings.ToLower(name[:1]) + name[1:])
	}
	return at
}

// withoutMeta returns a shallow copy that shares all but the metadata.
func withoutMeta(object runtime.Object) runtime.Object {
	bare := newLike(object)
	reflect.ValueOf(bare).Elem().Set(reflect.ValueOf(object).Elem())
	for _, name := range []string{"TypeMeta", "ObjectMeta"} {
		structField(bare, name).SetZero()
	}
	return bare
}
