// Command pilothouse-apiserver is a Kubernetes API server for tests: the API
// machinery of the real one with etcd inside, and no controllers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"pilothouse.dev/tests/apiserver/internal/elect"
	"pilothouse.dev/tests/apiserver/internal/server"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "elect" {
		finish(compete(os.Args[2:]))
		return
	}
	options, err := parseFlags(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(options)
	}
	finish(err)
}

// compete is not the server, but a client: a program in a leader election. It
// is in the same executable because it is made of the same packages.
func compete(arguments []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return elect.Run(ctx, arguments)
}

func finish(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "pilothouse-apiserver:", err)
		os.Exit(1)
	}
}

func run(options server.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := os.MkdirAll(options.DataDir, 0o700); err != nil {
		return err
	}
	instance, err := server.New(options)
	if err != nil {
		return err
	}
	return instance.Run(ctx, func(url string) { fmt.Println("ready", url) })
}
