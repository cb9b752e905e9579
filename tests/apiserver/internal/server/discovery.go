package server

import (
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
)

// customGroups keeps the groups of custom resources in the plain list at
// /apis. In a cluster the aggregator does this; the aggregated discovery
// document needs no help.
type customGroups struct {
	server      *genericapiserver.GenericAPIServer
	definitions listers.CustomResourceDefinitionLister

	mu     sync.Mutex
	listed []string
}

func listCustomGroups(server *genericapiserver.GenericAPIServer, factory apiextensions.SharedInformerFactory) {
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	groups := &customGroups{server: server, definitions: informer.Lister()}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { groups.update() },
		UpdateFunc: func(any, any) { groups.update() },
		DeleteFunc: func(any) { groups.update() },
	})
	utilruntime.Must(err)
}

// update lists everything anew: there are few definitions, and they seldom
// change.
func (g *customGroups) update() {
	g.mu.Lock()
	defer g.mu.Unlock()
	definitions, err := g.definitions.List(labels.Everything())
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	versions := versionsByGroup(definitions)
	for _, name := range g.listed {
		if len(versions[name]) == 0 {
			g.server.DiscoveryGroupManager.RemoveGroup(name)
		}
	}
	g.listed = g.listed[:0]
	for name, served := range versions {
		g.listed = append(g.listed, name)
		g.server.DiscoveryGroupManager.AddGroup(discoveryGroup(name, served))
	}
}

// versionsByGroup holds the served versions of established definitions, the
// preferred one first.
func versionsByGroup(definitions []*apiextensionsv1.CustomResourceDefinition) map[string][]string {
	versions := map[string][]string{}
	for _, definition := range definitions {
		if !isEstablished(definition) {
			continue
		}
		group := definition.Spec.Group
		for _, candidate := range definition.Spec.Versions {
			if candidate.Served && !slices.Contains(versions[group], candidate.Name) {
				versions[group] = append(versions[group], candidate.Name)
			}
		}
	}
	for _, served := range versions {
		slices.SortFunc(served, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	}
	return versions
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(definition.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
	})
}

func discoveryGroup(name string, versions []string) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, served := range versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + served, Version: served})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}
