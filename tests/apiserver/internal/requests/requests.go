// Package requests counts what clients ask of the server, so that a test can
// tell how many watches a client holds and how often it lists.
package requests

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Counter counts requests as they arrive, refused ones too.
type Counter struct {
	resolver apirequest.RequestInfoResolver
	// ignored is the user agent of the server's own clients.
	ignored string

	mu     sync.Mutex
	counts map[request]*count
}

// request is what requests are told apart by. Path is empty for a request
// about a resource, and the only thing known of any other.
type request struct {
	UserAgent   string `json:"userAgent"`
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Path        string `json:"path,omitempty"`
}

type count struct {
	// Total is how many have arrived since the last reset.
	Total int `json:"count"`
	// Open is how many are being served now, whenever they arrived.
	Open int `json:"open"`
}

type record struct {
	request
	count
}

// NewCounter ignores the requests of one user agent, the server's own.
func NewCounter(resolver apirequest.RequestInfoResolver, ignored string) *Counter {
	return &Counter{resolver: resolver, ignored: ignored, counts: map[request]*count{}}
}

// Wrap counts what passes through to the handler.
func (c *Counter) Wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, counted := c.identify(r)
		if counted {
			c.begin(key)
			defer c.end(key)
		}
		handler.ServeHTTP(w, r)
	})
}

// identify leaves out the server's own requests and those of the test that is
// counting.
func (c *Counter) identify(r *http.Request) (request, bool) {
	agent := r.UserAgent()
	if strings.HasPrefix(agent, c.ignored) || strings.HasPrefix(r.URL.Path, "/testing/") {
		return request{}, false
	}
	info, err := c.resolver.NewRequestInfo(r)
	if err != nil {
		return request{}, false
	}
	if !info.IsResourceRequest {
		return request{UserAgent: agent, Verb: info.Verb, Path: info.Path}, true
	}
	return request{
		UserAgent:   agent,
		Verb:        info.Verb,
		Group:       info.APIGroup,
		Resource:    info.Resource,
		Subresource: info.Subresource,
		Namespace:   info.Namespace,
	}, true
}

func (c *Counter) begin(key request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[key] == nil {
		c.counts[key] = &count{}
	}
	c.counts[key].Total++
	c.counts[key].Open++
}

func (c *Counter) end(key request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[key].Open--
}

// reset forgets all but what is still open.
func (c *Counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, count := range c.counts {
		count.Total = 0
		if count.Open == 0 {
			delete(c.counts, key)
		}
	}
}

func (c *Counter) records() []record {
	c.mu.Lock()
	defer c.mu.Unlock()
	records := make([]record, 0, len(c.counts))
	for key, count := range c.counts {
		records = append(records, record{key, *count})
	}
	slices.SortFunc(records, func(a, b record) int {
		return cmp.Or(
			cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Subresource, b.Subresource),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Verb, b.Verb))
	})
	return records
}

// ServeHTTP answers GET with the counts and starts over on DELETE.
func (c *Counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"requests": c.records()}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case http.MethodDelete:
		c.reset()
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Error(w, "GET or DELETE", http.StatusMethodNotAllowed)
	}
}
