package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"

	"pilothouse.dev/tests/apiserver/internal/server"
)

const usage = `pilothouse-apiserver serves the Kubernetes API for tests, on 127.0.0.1 only.

It prints "ready URL" on standard output once it answers, and runs until
SIGTERM or SIGINT. Everything it keeps is in the data directory; started again
on the same one, it has the same objects, certificate and admin token.

Flags:
`

// tokenFlag reads TOKEN=USER[,GROUP...].
type tokenFlag map[string]*user.DefaultInfo

func (t tokenFlag) String() string { return "" }

func (t tokenFlag) Type() string { return "TOKEN=USER[,GROUP...]" }

func (t tokenFlag) Set(value string) error {
	token, subject, found := strings.Cut(value, "=")
	names := strings.Split(subject, ",")
	if !found || token == "" || names[0] == "" {
		return fmt.Errorf("want %s", t.Type())
	}
	t[token] = &user.DefaultInfo{Name: names[0], Groups: names[1:]}
	return nil
}

func parseFlags(arguments []string) (server.Options, error) {
	options := server.Options{}
	tokens := tokenFlag{}
	flags := pflag.NewFlagSet("pilothouse-apiserver", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() { fmt.Fprint(os.Stdout, usage, flags.FlagUsages()) }

	flags.StringVar(&options.DataDir, "data-dir", "", "directory for etcd, the certificate and the admin token; created if missing (required)")
	flags.IntVar(&options.Port, "port", 0, "port to listen on; 0 takes a free one")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "file to write once ready, with the CA and the admin's token")
	flags.BoolVar(&options.WatchCache, "watch-cache", true, "serve lists and watches from memory, as clusters do; without it each goes to etcd")
	flags.StringVar(&options.AuthorizationMode, "authorization-mode", server.ModeAlwaysAllow,
		server.ModeAlwaysAllow+" (whoever has a token) or "+server.ModeRBAC)
	flags.Var(tokens, "token", "a further user, known by this token; may be repeated")
	flags.DurationVar(&options.CompactionInterval, "etcd-compaction-interval", 5*time.Minute, "how often to compact etcd; 0 never does")
	flags.DurationVar(&options.ProgressInterval, "etcd-progress-interval", 0, "how often etcd tells watches how far it is, in clusters 5s; 0 is etcd's default")
	flags.Func("feature-gates", "features to switch on or off, as kube-apiserver takes them: NAME=true|false[,...]", utilfeature.DefaultMutableFeatureGate.Set)
	flags.BoolVar(&options.RecordWrites, "record-writes", false, "keep a journal of all changes, and who made them, for /testing/writes")
	quietLogging(flags)

	if err := flags.Parse(arguments); err != nil {
		return options, err
	}
	options.Tokens = tokens
	if options.DataDir == "" {
		return options, errors.New("--data-dir is required")
	}
	if flags.NArg() > 0 {
		return options, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return options, nil
}

// quietLogging keeps standard error for the test, until the one logging flag
// that helps to debug is given. Even errors are left out, as tests provoke
// many: each refused token is one.
func quietLogging(flags *pflag.FlagSet) {
	logging := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logging)
	klog.LogToStderr(false)
	utilruntime.Must(logging.Set("stderrthreshold", "FATAL"))
	klog.SetOutput(io.Discard)
	flags.FuncP("v", "v", "log to standard error, the more the higher", func(level string) error {
		klog.LogToStderr(true)
		return logging.Set("v", level)
	})
}
