// Package writes keeps a journal of what clients have changed, so that a test
// can tell who has written what, in the server's order.
package writes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Journal has an entry for each request that may change an object, refused
// ones too, in the order in which they were answered.
type Journal struct {
	// ignored is the user agent of the server's own clients.
	ignored string

	mu      sync.Mutex
	entries []entry
}

// entry is one request and its answer.
type entry struct {
	User        string `json:"user"`
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Code        int    `json:"code"`
	// Version is the resourceVersion in the answer: that which the change has
	// made, or that of before if there was nothing to change. Empty for a
	// deletion that is answered with a Status.
	Version string `json:"version"`
	UID     string `json:"uid"`
	// Holder is that of a Lease.
	Holder string    `json:"holder"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
}

// answer has the members of an object, or of a Status, that an entry keeps.
type answer struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity string `json:"holderIdentity"`
	} `json:"spec"`
	Details struct {
		UID string `json:"uid"`
	} `json:"details"`
}

// NewJournal ignores the requests of one user agent, the server's own.
func NewJournal(ignored string) *Journal {
	return &Journal{ignored: ignored, entries: []entry{}}
}

// Wrap writes down what passes through to the handler, which must know by then
// who asks for what.
func (j *Journal) Wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := apirequest.RequestInfoFrom(r.Context())
		isChange := r.Method != http.MethodGet && r.Method != http.MethodHead && len(r.URL.Query()["dryRun"]) == 0
		if !known || !info.IsResourceRequest || !isChange || r.UserAgent() == j.ignored {
			handler.ServeHTTP(w, r)
			return
		}
		kept := entry{
			Verb: info.Verb, Resource: info.Resource, Subresource: info.Subresource,
			Namespace: info.Namespace, Name: info.Name, Began: time.Now(),
		}
		if who, known := apirequest.UserFrom(r.Context()); known {
			kept.User = who.GetName()
		}
		copied := &copying{ResponseWriter: w, code: http.StatusOK}
		// Also when the handler panics, as it does when a client has gone.
		defer func() { j.add(kept, copied) }()
		handler.ServeHTTP(copied, r)
	})
}

func (j *Journal) add(kept entry, copied *copying) {
	kept.Ended, kept.Code = time.Now(), copied.code
	found := answer{}
	// An answer that is no JSON has nothing to keep.
	if json.Unmarshal(copied.body.Bytes(), &found) == nil {
		kept.Version, kept.Holder = found.Metadata.ResourceVersion, found.Spec.HolderIdentity
		kept.UID = found.Metadata.UID
		if kept.UID == "" {
			kept.UID = found.Details.UID
		}
		if kept.Name == "" {
			kept.Name = found.Metadata.Name
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, kept)
}

// ServeHTTP answers with the entries after the first N: ?after=N.
func (j *Journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	if r.Method != http.MethodGet || err != nil || after < 0 {
		http.Error(w, "GET with after=N", http.StatusBadRequest)
		return
	}
	j.mu.Lock()
	entries := j.entries[min(after, len(j.entries)):]
	j.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"writes": entries}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// copying keeps what it passes on.
type copying struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (c *copying) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

func (c *copying) Write(data []byte) (int, error) {
	c.body.Write(data)
	return c.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }
