package kinds

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Handlers are the REST handlers of each group and version, by resource name
// (`pods`) or resource and subresource (`pods/status`).
type Handlers map[schema.GroupVersion]map[string]rest.Storage

// NewHandlers opens the storage of every kind in the table.
func NewHandlers(options generic.RESTOptionsGetter, authorize authorizer.UnconditionalAuthorizer) (Handlers, error) {
	handlers := Handlers{}
	stores := map[schema.GroupResource]*genericregistry.Store{}
	for _, kind := range table {
		store, err := newStore(kind, options)
		if err != nil {
			return nil, fmt.Errorf("opening the storage of %s: %w", kind.groupResource(), err)
		}
		stores[kind.groupResource()] = store
		handlers.addKind(kind, store)
	}
	handlers.addPodActions(stores)
	handlers.addAccessReviews(authorize)
	return handlers, nil
}

// Groups arranges the handlers the way the generic server installs them: the
// core group apart from the others.
func (h Handlers) Groups() (core *genericapiserver.APIGroupInfo, others []*genericapiserver.APIGroupInfo) {
	for _, groupVersion := range groupVersions {
		resources, served := h[groupVersion]
		if !served {
			continue
		}
		info := genericapiserver.NewDefaultAPIGroupInfo(groupVersion.Group, Scheme, ParameterCodec, Codecs)
		info.PrioritizedVersions = []schema.GroupVersion{groupVersion}
		info.VersionedResourcesStorageMap[groupVersion.Version] = resources
		if groupVersion.Group == "" {
			core = &info
		} else {
			others = append(others, &info)
		}
	}
	return core, others
}

func (h Handlers) add(groupVersion schema.GroupVersion, resource string, storage rest.Storage) {
	if h[groupVersion] == nil {
		h[groupVersion] = map[string]rest.Storage{}
	}
	h[groupVersion][resource] = storage
}

func (h Handlers) addKind(kind *Kind, store *genericregistry.Store) {
	base := newStrategy(kind)
	object := &objectStorage{Store: store, kind: kind}
	h.add(kind.groupVersion, kind.plural, object)
	// Subresources copy the store, so what is special about it comes first.
	switch kind.plural {
	case "namespaces":
		store.ShouldDeleteDuringUpdate = isNamespaceFinished
		h.add(kind.groupVersion, kind.plural, &namespaceStorage{withoutDeletion: object, store: store})
		h.add(kind.groupVersion, kind.plural+"/finalize", newFinalizeStorage(store, base))
	case "services":
		store.BeginCreate = (&clusterIPs{}).assign(store)
	}
	if kind.hasStatus {
		h.add(kind.groupVersion, kind.plural+"/status", newStatusStorage(store, base))
	}
	if kind.scale != nil {
		h.add(kind.groupVersion, kind.plural+"/scale", &scaleStorage{store: store, kind: kind})
	}
}

func newStrategy(kind *Kind) strategy {
	return strategy{ObjectTyper: Scheme, NameGenerator: names.SimpleNameGenerator, kind: kind}
}

func newStore(kind *Kind, options generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	base := newStrategy(kind)
	store := &genericregistry.Store{
		NewFunc:                   kind.newObject,
		NewListFunc:               kind.newList,
		DefaultQualifiedResource:  kind.groupResource(),
		SingularQualifiedResource: kind.singularResource(),
		CreateStrategy:            base,
		UpdateStrategy:            base,
		DeleteStrategy:            base,
		ResetFieldsStrategy:       base,
		ReturnDeletedObject:       kind.returnsDeleted,
		TableConvertor:            rest.NewDefaultTableConvertor(kind.groupResource()),
	}
	if kind.gracePeriod != nil {
		store.DeleteStrategy = gracefulStrategy{base}
	}
	err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: kind.attributes})
	return store, err
}

// objectStorage serves the main resource of a kind.
type objectStorage struct {
	*genericregistry.Store
	kind *Kind
}

func (s *objectStorage) ShortNames() []string { return s.kind.shortNames }

func (s *objectStorage) Categories() []string { return s.kind.categories() }

// List clears the kind of each item, which the real server does not send
// either. Read straight from etcd an item has one, because the stored and the
// served type are the same, so that no conversion drops it.
func (s *objectStorage) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	list, err := s.Store.List(ctx, options)
	if err != nil {
		return nil, err
	}
	return list, meta.EachListItem(list, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	})
}

// statusStorage serves /status from the storage of the main resource.
type statusStorage struct {
	store *genericregistry.Store
}

func newStatusStorage(main *genericregistry.Store, base strategy) *statusStorage {
	store := *main
	store.UpdateStrategy = statusStrategy{base}
	store.ResetFieldsStrategy = statusStrategy{base}
	return &statusStorage{store: &store}
}

func (s *statusStorage) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the storage belongs to the main resource.
func (s *statusStorage) Destroy() {}

func (s *statusStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update never creates, whatever the main resource allows.
func (s *statusStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, options)
}

func (s *statusStorage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

func (s *statusStorage) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, options)
}
