package main

import (
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize prints what `kubectl kustomize DIRECTORY` does, with kubectl's defaults: no plugins, and
// no files from outside of a kustomization's directory.
func kustomize(arguments []string) error {
	directory, err := one(arguments, "the directory of a kustomization.yaml")
	if err != nil {
		return err
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return err
	}
	objects := make([]map[string]any, 0, resources.Size())
	for _, resource := range resources.Resources() {
		object, err := resource.Map()
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	return printObjects(objects)
}
