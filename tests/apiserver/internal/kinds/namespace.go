package kinds

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

func prepareNamespace(object runtime.Object) {
	namespace := object.(*corev1.Namespace)
	defaultNamespace(namespace)
	namespace.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		namespace.Spec.Finalizers = append(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func keepNamespaceFinalizers(object, old runtime.Object) {
	object.(*corev1.Namespace).Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
}

// namespaceStorage deletes in two steps: the first request starts termination,
// and the namespace goes once both lists of finalizers are empty. Emptying
// spec.finalizers is up to the caller, as no namespace controller runs.
type namespaceStorage struct {
	withoutDeletion
	store *genericregistry.Store
}

// withoutDeletion is what namespaces share with other kinds. That leaves out
// deletecollection: namespaces go one at a time.
type withoutDeletion interface {
	rest.Creater
	rest.Getter
	rest.Lister
	rest.Updater
	rest.Watcher
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.ResetFieldsStrategy
	rest.StorageWithReadiness
}

// Delete follows the real server's, less the finalizers for a garbage
// collector.
func (s *namespaceStorage) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	found, err := s.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	namespace := found.(*corev1.Namespace)
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	if options.Preconditions.UID == nil {
		options.Preconditions.UID = &namespace.UID
	}
	if namespace.DeletionTimestamp.IsZero() {
		terminating, err := s.terminate(ctx, name, validate, options)
		return terminating, false, err
	}
	if len(namespace.Spec.Finalizers) != 0 {
		return namespace, false, nil
	}
	return s.store.Delete(ctx, name, validate, options)
}

func (s *namespaceStorage) terminate(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, error) {
	key, err := s.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	preconditions := storage.Preconditions{
		UID:             options.Preconditions.UID,
		ResourceVersion: options.Preconditions.ResourceVersion,
	}
	update := storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
		namespace := existing.(*corev1.Namespace)
		if err := validate(ctx, namespace); err != nil {
			return nil, err
		}
		markTerminating(namespace)
		return namespace, nil
	})
	out := s.store.NewFunc()
	err = s.store.Storage.GuaranteedUpdate(ctx, key, out, false, &preconditions, update, dryrun.IsDryRun(options.DryRun), nil)
	return out, storeerr.InterpretUpdateError(err, s.store.DefaultQualifiedResource, name)
}

func markTerminating(namespace *corev1.Namespace) {
	if namespace.DeletionTimestamp.IsZero() {
		now := metav1.Now()
		namespace.DeletionTimestamp = &now
	}
	namespace.Status.Phase = corev1.NamespaceTerminating
}

// isNamespaceFinished tells the store whether an update that emptied
// metadata.finalizers is also the end of the namespace.
func isNamespaceFinished(ctx context.Context, key string, object, existing runtime.Object) bool {
	return len(object.(*corev1.Namespace).Spec.Finalizers) == 0 &&
		genericregistry.ShouldDeleteDuringUpdate(ctx, key, object, existing)
}

// finalizeStorage serves namespaces/finalize, the only way to change
// spec.finalizers.
type finalizeStorage struct {
	statusStorage
}

func newFinalizeStorage(main *genericregistry.Store, s strategy) *finalizeStorage {
	store := *main
	store.UpdateStrategy = finalizeStrategy{s}
	return &finalizeStorage{statusStorage{store: &store}}
}

type finalizeStrategy struct {
	strategy
}

func (finalizeStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	object.(*corev1.Namespace).Status = old.(*corev1.Namespace).Status
}
