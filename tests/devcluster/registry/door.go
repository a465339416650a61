package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// setupHeader marks requests by which a test fills the registry. They are neither counted
// nor refused, so that a test sees only what others asked.
const setupHeader = "Devcluster-Setup"

func setsUp(r *http.Request) bool { return r.Header.Get(setupHeader) != "" }

// door stands before the registry and the token server.
type door struct {
	mu       sync.Mutex
	requests []string // "METHOD PATH STATUS" in the order of the answers
	refusal  refusal
}

// refusal is the answer to the next requests.
type refusal struct {
	left       int
	status     int
	retryAfter string // "" means that nothing is said of it
}

// counted notes each request and its answer.
func (d *door) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if setsUp(r) {
			next.ServeHTTP(w, r)
			return
		}
		asked := r.Method + " " + r.URL.RequestURI()
		noting := &noting{ResponseWriter: w, note: func(status int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.requests = append(d.requests, fmt.Sprintf("%s %d", asked, status))
		}}
		next.ServeHTTP(noting, r)
		if !noting.done {
			noting.WriteHeader(http.StatusOK)
		}
	})
}

// guarded is counted, and refuses what it is told to.
func (d *door) guarded(next http.Handler) http.Handler {
	return d.counted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused, yes := d.refuses(r)
		if !yes {
			next.ServeHTTP(w, r)
			return
		}
		if refused.retryAfter != "" {
			w.Header().Set("Retry-After", refused.retryAfter)
		}
		code := "UNKNOWN"
		if refused.status == http.StatusTooManyRequests {
			code = "TOOMANYREQUESTS"
		}
		answerError(w, refused.status, code, "the test wants it so")
	}))
}

func (d *door) refuses(r *http.Request) (refusal, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if setsUp(r) || d.refusal.left == 0 {
		return refusal{}, false
	}
	d.refusal.left--
	return d.refusal, true
}

// noting notes the status before the client sees it: who has the answer finds the note.
type noting struct {
	http.ResponseWriter
	note func(status int)
	done bool
}

func (n *noting) WriteHeader(status int) {
	if !n.done && status >= 200 {
		n.done = true
		n.note(status)
	}
	n.ResponseWriter.WriteHeader(status)
}

func (n *noting) Write(bytes []byte) (int, error) {
	if !n.done {
		n.WriteHeader(http.StatusOK)
	}
	return n.ResponseWriter.Write(bytes)
}

// Unwrap is for http.ResponseController.
func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// admin is what a test asks of the door.
func admin(d *door, tokens *tokenServer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		answer(w, http.StatusOK, append([]string{}, d.requests...))
	})
	mux.HandleFunc("GET /tokens", func(w http.ResponseWriter, _ *http.Request) {
		issued := int64(0)
		if tokens != nil {
			issued = tokens.issued.Load()
		}
		answer(w, http.StatusOK, issued)
	})
	mux.HandleFunc("POST /refuse", func(w http.ResponseWriter, r *http.Request) {
		count, wrong := strconv.Atoi(r.FormValue("count"))
		status, wrongToo := strconv.Atoi(r.FormValue("status"))
		if wrong != nil || wrongToo != nil || count < 0 || status < 400 || status > 599 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "needs ?count=N&status=429, and perhaps &retry-after=SECONDS\n")
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refusal = refusal{count, status, r.FormValue("retry-after")}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
