// Package elect is a program as others write it with client-go: it takes part
// in a leader election and, while it leads, writes.
package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// pause is the time between two writes of a leader.
const pause = 20 * time.Millisecond

type options struct {
	kubeconfig, namespace, name, identity, configMap string
	leaseDuration, renewDeadline, retryPeriod        time.Duration
}

// Run competes for a Lease until the context ends, and then gives it back. It
// prints a line when it begins and when it stops to lead. While it leads it
// changes a ConfigMap, which must be there.
func Run(ctx context.Context, arguments []string) error {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", chosen.kubeconfig)
	if err != nil {
		return err
	}
	// The journal of writes reads answers in JSON.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := term(ctx, client, chosen); err != nil {
			return err
		}
	}
	return nil
}

func parse(arguments []string) (options, error) {
	chosen := options{}
	flags := pflag.NewFlagSet("elect", pflag.ContinueOnError)
	flags.StringVar(&chosen.kubeconfig, "kubeconfig", "", "the server and the user")
	flags.StringVar(&chosen.namespace, "namespace", "default", "namespace of the Lease and the ConfigMap")
	flags.StringVar(&chosen.name, "name", "pilothouse", "name of the Lease")
	flags.StringVar(&chosen.identity, "identity", "client-go", "name among those who compete")
	flags.StringVar(&chosen.configMap, "config-map", "client-go", "what a leader changes")
	flags.DurationVar(&chosen.leaseDuration, "lease-duration", 15*time.Second, "as in Kubernetes")
	flags.DurationVar(&chosen.renewDeadline, "renew-deadline", 10*time.Second, "as in Kubernetes")
	flags.DurationVar(&chosen.retryPeriod, "retry-period", 2*time.Second, "as in Kubernetes")
	return chosen, flags.Parse(arguments)
}

// term ends when a leadership ends, or with the context.
func term(ctx context.Context, client kubernetes.Interface, chosen options) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: chosen.namespace, Name: chosen.name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: chosen.identity},
		},
		LeaseDuration:   chosen.leaseDuration,
		RenewDeadline:   chosen.renewDeadline,
		RetryPeriod:     chosen.retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				fmt.Println("leads")
				write(leading, client, chosen)
			},
			OnStoppedLeading: func() { fmt.Println("stopped") },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

// write changes the ConfigMap again and again while the context lasts. A write
// that fails is followed by the next one.
func write(leading context.Context, client kubernetes.Interface, chosen options) {
	for turn := 0; leading.Err() == nil; turn++ {
		change := fmt.Sprintf(`{"data":{"turn":"%s %d"}}`, chosen.identity, turn)
		_, _ = client.CoreV1().ConfigMaps(chosen.namespace).Patch(
			leading, chosen.configMap, types.MergePatchType, []byte(change), metav1.PatchOptions{})
		select {
		case <-leading.Done():
		case <-time.After(pause):
		}
	}
}
