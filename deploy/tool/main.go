// Command deploytool renders the manifests in deploy/ as kubectl and helm do, holds pods against the
// Pod Security Standards, and assembles the container image. It needs no cluster, no container engine and no network.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

const usage = `deploytool COMMAND

  kustomize DIRECTORY           print the objects of a kustomization, as JSON
  helm [FLAGS] CHART            print the objects of a chart, as JSON; helm --help lists the flags
  podsecurity LEVEL             check the pods of the objects on standard input against a level of
                                the Pod Security Standards: baseline, restricted
  image [FLAGS]                 write an OCI image layout; image --help lists the flags
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	commands := map[string]func([]string) error{
		"kustomize":   kustomize,
		"helm":        helm,
		"podsecurity": podSecurity,
		"image":       image,
	}
	command, found := commands[os.Args[1]]
	if !found {
		fmt.Fprintf(os.Stderr, "there is no command %q\n\n%s", os.Args[1], usage)
		os.Exit(2)
	}
	if err := command(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "deploytool:", err)
		os.Exit(1)
	}
}

// one returns the only argument.
func one(arguments []string, what string) (string, error) {
	if len(arguments) != 1 {
		return "", fmt.Errorf("want one argument, %s, and not %q", what, arguments)
	}
	return arguments[0], nil
}

// printObjects writes objects to standard output as a JSON list.
func printObjects(objects []map[string]any) error {
	return json.NewEncoder(os.Stdout).Encode(objects)
}
