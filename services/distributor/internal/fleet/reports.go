// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"reflect"
	"sync"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// reports are the latest ones of services, by the service's uid: a service that is created again
// under its name does not inherit one. It is safe for concurrent use.
type reports struct {
	mu    sync.RWMutex
	byUID map[string]*catalog.StoredReport
}

// of returns the latest report of a service; the zero value before the first.
func (r *reports) of(service *catalog.Service) catalog.StoredReport {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if report := r.byUID[service.UID]; report != nil {
		return *report
	}
	return catalog.StoredReport{}
}

// put replaces a service's report. It reports whether that changed anything.
func (r *reports) put(service *catalog.Service, report catalog.StoredReport) (hasChanged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reflect.DeepEqual(r.byUID[service.UID], &report) {
		return false
	}
	r.byUID[service.UID] = &report
	return true
}

// forget drops the reports of deleted services.
func (r *reports) forget(serviceUIDs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range serviceUIDs {
		delete(r.byUID, uid)
	}
}
