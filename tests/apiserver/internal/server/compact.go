package server

import (
	"context"
	"encoding/json"
	"net/http"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

const (
	// compactRevisionKey is where every API server on an etcd looks up how
	// far it has been compacted. Its version is what compactors compete on.
	compactRevisionKey = "compact_rev_key"
	// markerKey is written to have a revision after all others.
	markerKey = "pilothouse/compaction"
)

// compaction answers POST by making every resourceVersion handed out so far
// too old.
type compaction struct {
	client *clientv3.Client
}

func newCompaction(etcd *embed.Etcd) *compaction {
	return &compaction{client: v3client.New(etcd.Server)}
}

func (c *compaction) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "POST", http.StatusMethodNotAllowed)
		return
	}
	revision, err := c.compact(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]int64{"revision": revision}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// compact goes through the API server's own compaction, so that the watch
// caches learn of it and drop what etcd has dropped.
func (c *compaction) compact(ctx context.Context) (int64, error) {
	marker, err := c.client.Put(ctx, markerKey, "")
	if err != nil {
		return 0, err
	}
	current, err := c.client.Get(ctx, compactRevisionKey)
	if err != nil {
		return 0, err
	}
	version := int64(0)
	if len(current.Kvs) > 0 {
		version = current.Kvs[0].Version
	}
	revision := marker.Header.Revision
	_, _, _, err = etcd3.Compact(ctx, c.client, version, revision)
	return revision, err
}
