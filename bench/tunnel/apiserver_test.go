// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// The paths that the API server's double answers. A GET of pathBulk with the parameter "bytes" is
// answered with that many, in a body of unknown length like lists and logs. A PUT discards its body
// and answers its length.
const (
	pathSmall = "/api/v1/namespaces/default/configmaps/small"
	pathBulk  = "/api/v1/namespaces/default/configmaps/bulk"
	// pathInventories is what an agent reads first.
	pathInventories = "/api/v1/namespaces/leat-system/configmaps"
)

const (
	smallPayload = 800 // about 1 KiB with its metadata
	bulkChunk    = 128 << 10
)

// apiServerDouble returns the handler of a Kubernetes API server that supports only the requests of
// these benchmarks. It does not authenticate.
func apiServerDouble() http.Handler {
	small := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"small","namespace":"default",`+
		`"uid":"7c7e5b9e-0f0c-4b0f-9c39-1a6f6a4f1f11","resourceVersion":"123456","creationTimestamp":"2026-01-01T00:00:00Z"},`+
		`"data":{"payload":%q}}`, strings.Repeat("x", smallPayload))
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathSmall, answerJSON(http.StatusOK, small))
	mux.HandleFunc("GET "+pathBulk, sendBulk)
	mux.HandleFunc("PUT "+pathBulk, takeBulk)
	mux.HandleFunc("GET "+pathInventories, answerJSON(http.StatusOK, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`))
	mux.HandleFunc("GET /version", answerJSON(http.StatusOK, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`))
	mux.HandleFunc("/", answerJSON(http.StatusNotFound,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`))
	return mux
}

func answerJSON(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // an error means that the caller is gone
	}
}

func sendBulk(w http.ResponseWriter, r *http.Request) {
	left, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	noise := make([]byte, bulkChunk)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	for left > 0 {
		n, err := w.Write(noise[:min(left, bulkChunk)])
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

func takeBulk(w http.ResponseWriter, r *http.Request) {
	buffer := make([]byte, bulkChunk)
	n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r.Body}, buffer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, strconv.FormatInt(n, 10)) // as above
}
