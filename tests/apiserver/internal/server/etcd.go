package server

import (
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdStartTimeout is far beyond the half second that a start takes.
const etcdStartTimeout = 30 * time.Second

// startEtcd runs etcd in this process on a free port of its own. Writes skip
// fsync: they survive the end of the process, however sudden, but not that of
// the machine. Every so often it tells watches how far it is; 0 is etcd's default.
func startEtcd(dataDir string, progress time.Duration) (*embed.Etcd, error) {
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dataDir, "etcd")
	config.ListenClientUrls = []url.URL{loopback}
	config.AdvertiseClientUrls = []url.URL{loopback}
	config.ListenPeerUrls = []url.URL{loopback}
	config.AdvertisePeerUrls = []url.URL{loopback}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.LogLevel = "panic"
	config.UnsafeNoFsync = true
	if progress > 0 {
		config.WatchProgressNotifyInterval = progress
	}
	// A cluster of one elects itself; there is nobody to wait for.
	config.TickMs, config.ElectionMs = 10, 100

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting etcd in %s: %w", config.Dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("etcd stopped while starting: %w", err)
	case <-time.After(etcdStartTimeout):
		etcd.Close()
		return nil, fmt.Errorf("etcd was not ready within %s", etcdStartTimeout)
	}
}

func etcdEndpoint(etcd *embed.Etcd) string {
	return "http://" + etcd.Clients[0].Addr().String()
}
