// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

const (
	copyBuffer = 32 << 10
	// idleConnections are kept for the next request, more than there are clients.
	idleConnections = 128
)

// proxyHandler returns httputil.ReverseProxy in front of a server, with a pool of buffers and kept
// connections, and nothing else. It speaks HTTP/2 or HTTP/1.1 to the server.
func proxyHandler(target, certificate string, http2 bool) (http.Handler, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("parse target: %w", err)
	}
	trusted, err := trust(certificate)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(http2)
	protocols.SetHTTP1(!http2)
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{
			TLSClientConfig: trusted, Protocols: protocols, DisableCompression: true,
			MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections,
		},
		BufferPool: &buffers{},
		ErrorLog:   log.New(io.Discard, "", 0), // of callers that have left
	}, nil
}

type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return buffer[:]
	}
	return make([]byte, copyBuffer)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == copyBuffer {
		b.pool.Put((*[copyBuffer]byte)(buffer))
	}
}
