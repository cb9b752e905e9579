// Package kinds holds the built-in kinds of the test API server: one row of
// a table per kind, and what turns a row into storage and REST handlers. The
// handlers, the storage and the field management are those of
// k8s.io/apiserver; only what the real server keeps in its own strategies
// (status apart from spec, generation, defaults, graceful deletion) is here.
package kinds

import (
	"reflect"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Kind is one row of the table.
type Kind struct {
	groupVersion schema.GroupVersion
	plural       string
	shortNames   []string
	// inAll puts the kind into the category "all".
	inAll bool

	// object and list are empty examples; only their types are used.
	object runtime.Object
	list   runtime.Object

	namespaced bool
	// hasStatus keeps .status out of the main resource and serves /status.
	hasStatus bool
	// hasGeneration counts changes to everything but metadata and status.
	hasGeneration bool
	// annotationsCount makes a change of annotations raise the generation
	// too, as it does for kinds which copy theirs to what they create.
	annotationsCount bool
	// createOnUpdate lets PUT create a missing object.
	createOnUpdate bool
	// needsVersion refuses a PUT without metadata.resourceVersion.
	needsVersion bool
	// returnsDeleted answers DELETE with the object instead of a Status.
	returnsDeleted bool
	// orphans is the default deletion policy of the kinds whose dependents
	// outlive them unless the request says otherwise.
	orphans bool
	// inertToCollector marks the kind that no owner graph includes.
	inertToCollector bool

	validName apivalidation.ValidateNameFunc
	// immutable names Go fields, by dotted path, that no update may change.
	immutable []string
	// selectable returns the field selectors beyond metadata.
	selectable func(object runtime.Object) fields.Set
	// selectorNames translates selectors that go by another name in requests.
	selectorNames map[string]string

	// onCreate and onUpdate prepare an object before it is validated.
	onCreate func(object runtime.Object)
	onUpdate func(object, old runtime.Object)
	// onStatusUpdate prepares an object written through /status.
	onStatusUpdate func(object, old runtime.Object)
	// validate checks an object on create and, with its old self, on update.
	validate func(object, old runtime.Object) field.ErrorList
	// gracePeriod returns the seconds a deleted object stays.
	gracePeriod func(object runtime.Object, options *metav1.DeleteOptions) int64

	// scale, where set, serves /scale.
	scale *scaleFields
}

func (k *Kind) kindName() string {
	return reflect.TypeOf(k.object).Elem().Name()
}

func (k *Kind) groupVersionKind() schema.GroupVersionKind {
	return k.groupVersion.WithKind(k.kindName())
}

func (k *Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.groupVersion.Group, Resource: k.plural}
}

func (k *Kind) singularResource() schema.GroupResource {
	return schema.GroupResource{Group: k.groupVersion.Group, Resource: strings.ToLower(k.kindName())}
}

func (k *Kind) newObject() runtime.Object { return newLike(k.object) }

func (k *Kind) newList() runtime.Object { return newLike(k.list) }

func (k *Kind) categories() []string {
	if k.inAll {
		return []string{"all"}
	}
	return nil
}

func (k *Kind) deletionPolicy() rest.GarbageCollectionPolicy {
	switch {
	case k.inertToCollector:
		return rest.Unsupported
	case k.orphans:
		return rest.OrphanDependents
	default:
		return rest.DeleteDependents
	}
}

func newLike(example runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(example).Elem()).Interface().(runtime.Object)
}
