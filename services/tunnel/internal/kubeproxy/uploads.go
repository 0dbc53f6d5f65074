// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

// UploadWindow is how many bytes of one HTTP/2 body the hub's server accepts before the handler
// reads any: a caller with a round trip of 50 ms can then send 40 MiB/s.
const UploadWindow = 2 << 20

// heldPerUpload is the most that the hub holds of one HTTP/2 body.
const heldPerUpload = UploadWindow + h2.UploadBuffer

// sharesOfUploads sets which share of the memory for uploads one person may use: a quarter.
const sharesOfUploads = 4

// uploads bounds the memory of bodies that have arrived and wait for their cluster: what the server
// has accepted, and the buffer of the tunnel that sends it on. Over HTTP/2 the server accepts up to
// [UploadWindow] of each body before uploads is asked. So a body without room must be refused at
// once. It is safe for concurrent use.
type uploads struct {
	max, share int64

	mu     sync.Mutex
	held   int64
	people map[string]int64
}

// newUploads returns the bound. It leaves room for at least one body per person.
func newUploads(memory int64, meter metric.Meter) (*uploads, error) {
	u := &uploads{
		max: max(memory, sharesOfUploads*heldPerUpload), share: max(memory/sharesOfUploads, heldPerUpload), people: map[string]int64{},
	}
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.tunnel.uploads.reserved", "By",
		"Memory reserved for bodies of requests to clusters that came over HTTP/2 and are under way.",
		instrument.Value(func() int64 {
			u.mu.Lock()
			defer u.mu.Unlock()
			return u.held
		}))
	return u, set.Err()
}

// reserve reserves room for the body of a person's request until release is called. It reports
// false if there is no room.
func (u *uploads) reserve(subject string, r *http.Request) (release func(), ok bool) {
	size := heldAtMost(r)
	if size == 0 {
		return func() {}, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held+size > u.max || u.people[subject]+size > u.share {
		return nil, false
	}
	u.held += size
	u.people[subject] += size
	return func() { u.release(subject, size) }, true
}

func (u *uploads) release(subject string, size int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held -= size
	if u.people[subject] -= size; u.people[subject] == 0 {
		delete(u.people, subject)
	}
}

// heldAtMost returns how many bytes of a request's body the hub may hold. Over HTTP/1.1 the
// connection's own buffer holds what the server has accepted, so only the tunnel's buffer counts.
func heldAtMost(r *http.Request) int64 {
	if r.Body == nil || r.Body == http.NoBody || isUpgrade(r) {
		return 0
	}
	most := int64(heldPerUpload)
	if r.ProtoMajor < 2 {
		most = h2.UploadBuffer
	}
	if r.ContentLength < 0 {
		return most
	}
	return min(r.ContentLength, most)
}
