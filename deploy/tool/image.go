package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// description is what an image is made from, and what it says about itself.
type description struct {
	binary, version, revision string
	created                   time.Time
	architecture              string
}

// image writes an OCI image layout with one image: the host's static binary on a root that has what
// it needs and no more. The same input makes the same bytes.
func image(arguments []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	binary := flags.String("binary", "", "the host, statically linked (required)")
	output := flags.String("output", "", "directory for the layout; replaced if it is one (required)")
	version := flags.String("version", "", "the host's version (required)")
	revision := flags.String("revision", "", "the commit that it was built from")
	created := flags.String("created", "0", "time of everything in the image, in seconds since 1970: SOURCE_DATE_EPOCH")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *binary == "" || *output == "" || *version == "" || flags.NArg() > 0 {
		return errors.New("want --binary, --output and --version, and no other arguments")
	}
	seconds, err := strconv.ParseInt(*created, 10, 64)
	if err != nil {
		return fmt.Errorf("--created: %w", err)
	}
	architecture, err := architectureOfStatic(*binary)
	if err != nil {
		return err
	}
	made, err := assemble(description{*binary, *version, *revision, time.Unix(seconds, 0).UTC(), architecture})
	if err != nil {
		return err
	}
	return write(made, *output, *version, architecture)
}

// architectureOfStatic returns what the OCI calls the binary's machine. There is no dynamic linker
// in the image, so a binary that needs one is refused.
func architectureOfStatic(binary string) (string, error) {
	file, err := elf.Open(binary)
	if err != nil {
		return "", fmt.Errorf("%s: %w", binary, err)
	}
	defer file.Close()
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is not linked statically; build it for a musl target: rustup target add x86_64-unknown-linux-musl", binary)
		}
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%s is for %s; images are made for x86-64 and ARM64", binary, file.Machine)
}

// assemble makes the image. What seldom changes is a layer of its own, which registries and nodes
// then keep.
func assemble(from description) (v1.Image, error) {
	base, err := baseLayer(from.created)
	if err != nil {
		return nil, err
	}
	host, err := binaryLayer(from.binary, from.created)
	if err != nil {
		return nil, err
	}
	blank := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: from.created}
	layer := func(layer v1.Layer, what string) mutate.Addendum {
		return mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: what}}
	}
	made, err := mutate.Append(blank, layer(base, "certificates, accounts, directories"), layer(host, hostPath))
	if err != nil {
		return nil, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = created, "linux", from.architecture
	config.Config = configOf(from)
	return mutate.ConfigFile(made, config)
}

// configOf is how a container starts. The Containerfile says the same.
func configOf(from description) v1.Config {
	labels := map[string]string{
		"org.opencontainers.image.title":    "pilothouse",
		"org.opencontainers.image.version":  from.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if from.revision != "" {
		labels["org.opencontainers.image.revision"] = from.revision
	}
	return v1.Config{
		Entrypoint: []string{hostPath},
		User:       strconv.Itoa(userID) + ":" + strconv.Itoa(userID),
		WorkingDir: "/",
		Env: []string{
			"PATH=/usr/bin",
			"XDG_CACHE_HOME=/var/cache",
			"XDG_STATE_HOME=/var/lib",
			"XDG_RUNTIME_DIR=/run",
		},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels:       labels,
	}
}

// write replaces the layout at a path. Nothing else is ever removed there.
func write(made v1.Image, output, version, architecture string) error {
	if _, err := os.Stat(filepath.Join(output, "oci-layout")); err == nil {
		if err := os.RemoveAll(output); err != nil {
			return err
		}
	}
	place, err := layout.Write(output, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": version}
	platform := v1.Platform{OS: "linux", Architecture: architecture}
	if err := place.AppendImage(made, layout.WithAnnotations(name), layout.WithPlatform(platform)); err != nil {
		return err
	}
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}
