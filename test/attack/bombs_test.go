// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
)

// member is 8 MiB of zeros, compressed: about 8 KB. Several members in a row form a valid gzip
// stream.
var member = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant of the package
	}
	zeros := make([]byte, 1<<20)
	for range 8 {
		_, _ = w.Write(zeros) // cannot fail: out is in memory
	}
	_ = w.Close()
	return out.Bytes()
})

// bomb is about 500 KB that inflate to 512 MiB.
var bomb = sync.OnceValue(func() []byte { return bytes.Repeat(member(), 64) })

// enveloped returns message as a compressed message of a stream, with its length in front.
func enveloped(message []byte) []byte {
	head := []byte{1, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[1:], uint32(len(message)))
	return append(head, message...)
}

// bombProcedures sends bombs over HTTP/2 to all procedures that pick returns for the server, as
// messages of gRPC and of Connect.
func bombProcedures(pick func(v *victim) []procedure) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) {
		procedures := pick(v)
		v.each(ctx, func(ctx context.Context) error {
			client := v.client(ctx, true)
			defer client.CloseIdleConnections()
			p := procedures[rand.IntN(len(procedures))]
			header, body := http.Header{"Content-Type": {"application/proto"}, "Content-Encoding": {"gzip"}}, bomb()
			switch {
			case rand.IntN(2) == 0:
				header, body = http.Header{
					"Content-Type": {"application/grpc+proto"}, "Grpc-Encoding": {"gzip"}, "Te": {"trailers"},
				}, enveloped(bomb())
			case p.stream:
				header, body = http.Header{
					"Content-Type": {"application/connect+proto"}, "Connect-Content-Encoding": {"gzip"},
				}, enveloped(bomb())
			}
			return v.post(ctx, client, p.path, header, bytes.NewReader(body), int64(len(body)))
		})
	}
}

// bombGET sends bombs in the URLs of Connect's GET requests.
func bombGET(ctx context.Context, v *victim) {
	message := base64.URLEncoding.EncodeToString(bytes.Repeat(member(), 5)) // about 54 KB; a head may have 64
	procedures := everyProcedure(v)
	v.each(ctx, func(ctx context.Context) error {
		client := v.client(ctx, true)
		defer client.CloseIdleConnections()
		path := procedures[rand.IntN(len(procedures))].path
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			v.url(path+"?connect=v1&encoding=proto&base64=1&compression=gzip&message="+message), http.NoBody)
		if err != nil {
			return err
		}
		return discard(client.Do(request))
	})
}

// post sends a request and reads its answer.
func (v *victim) post(ctx context.Context, client *http.Client, path string, header http.Header, body io.Reader, size int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url(path), body)
	if err != nil {
		return err
	}
	request.Header, request.ContentLength = header, size
	return discard(client.Do(request))
}

func discard(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
