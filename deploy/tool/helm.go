package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// helm prints what `helm template` does, after it has checked the values against the chart's schema.
func helm(arguments []string) error {
	flags := flag.NewFlagSet("helm", flag.ContinueOnError)
	name := flags.String("name", "pilothouse", "the release's name")
	namespace := flags.String("namespace", "pilothouse", "the release's namespace")
	valuesFile := flags.String("values", "", "file with values in YAML; without it the chart's defaults")
	notes := flags.Bool("notes", false, "print NOTES.txt in place of the objects")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	directory, err := one(flags.Args(), "the chart's directory")
	if err != nil {
		return err
	}
	values, err := readValues(*valuesFile)
	if err != nil {
		return err
	}
	release := common.ReleaseOptions{Name: *name, Namespace: *namespace, Revision: 1, IsInstall: true}
	files, err := render(directory, values, release)
	if err != nil {
		return err
	}
	if *notes {
		return printNotes(files)
	}
	objects, err := objectsOf(files)
	if err != nil {
		return err
	}
	return printObjects(objects)
}

func readValues(file string) (map[string]any, error) {
	if file == "" {
		return map[string]any{}, nil
	}
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return loader.LoadValues(text)
}

// render returns the text that each template renders to.
func render(directory string, values map[string]any, release common.ReleaseOptions) (map[string]string, error) {
	chart, err := loader.LoadDir(directory)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(chart, all)
}

func printNotes(files map[string]string) error {
	for name, text := range files {
		if path.Base(name) == "NOTES.txt" {
			fmt.Print(text)
			return nil
		}
	}
	return errors.New("the chart has no NOTES.txt")
}

// objectsOf parses the rendered manifests, in the order of their files' names.
func objectsOf(files map[string]string) ([]map[string]any, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	objects := []map[string]any{}
	for _, name := range names {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(files[name]), 4096)
		for {
			object := map[string]any{}
			err := decoder.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, files[name])
			}
			if len(object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}
