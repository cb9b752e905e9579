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

	"pilothouse.dev/tests/apiserver/internal/server"
)

func main() {
	options, err := parseFlags(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(options)
	}
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
