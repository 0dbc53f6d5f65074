// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"

	"github.com/leatdev/leat/services/agent/internal/report"
)

// subscriberBuffer is how many events a reader may be behind.
const subscriberBuffer = 256

// events distributes events to subscribers. The zero events is ready to use. It is safe for
// concurrent use.
type events struct {
	mu          sync.Mutex
	subscribers map[chan report.Event]string // the service that each follows; "" for all
}

// subscribe returns a channel of events of one service ("" for all) and a function that ends the
// subscription. The channel is closed when its reader falls 256 events behind.
func (v *events) subscribe(service string) (<-chan report.Event, func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.subscribers == nil {
		v.subscribers = map[chan report.Event]string{}
	}
	c := make(chan report.Event, subscriberBuffer)
	v.subscribers[c] = service
	return c, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.dropLocked(c)
	}
}

// publish sends an event to all subscribers. It never waits for one.
func (v *events) publish(event report.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for c, service := range v.subscribers {
		if service != "" && service != event.Service {
			continue
		}
		select {
		case c <- event:
		default:
			v.dropLocked(c)
		}
	}
}

// dropLocked ends a subscription. It closes the channel under the lock, so that no event is sent to
// a closed channel.
func (v *events) dropLocked(c chan report.Event) {
	if _, ok := v.subscribers[c]; ok {
		delete(v.subscribers, c)
		close(c)
	}
}
