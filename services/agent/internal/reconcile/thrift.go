// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// thrifty stores no record that is stored already.
type thrifty struct {
	Inventories

	mu     sync.Mutex
	listed bool
	stored map[string]inventory.Content // by service; none where it is not certain what is stored
}

func newThrifty(i Inventories) *thrifty {
	return &thrifty{Inventories: i, stored: map[string]inventory.Content{}}
}

// List implements Inventories.
func (t *thrifty) List(ctx context.Context) ([]inventory.Record, error) {
	records, err := t.Inventories.List(ctx)
	if err != nil || !t.first() {
		return records, err // what has been stored meanwhile may be newer than the list
	}
	for _, record := range records {
		if content, err := record.Content(); err == nil {
			t.note(record.Service, &content)
		}
	}
	return records, nil
}

// first tells whether no list was taken in before.
func (t *thrifty) first() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.listed = true }()
	return !t.listed
}

// Save implements Inventories.
func (t *thrifty) Save(ctx context.Context, record inventory.Record) error {
	content, err := record.Content()
	if err != nil {
		return err
	}
	if t.has(record.Service, content) {
		return nil
	}
	t.note(record.Service, nil) // an error does not say whether it was stored
	if err := t.Inventories.Save(ctx, record); err != nil {
		return err
	}
	t.note(record.Service, &content)
	return nil
}

// Delete implements Inventories.
func (t *thrifty) Delete(ctx context.Context, service string) error {
	t.note(service, nil)
	return t.Inventories.Delete(ctx, service)
}

func (t *thrifty) has(service string, content inventory.Content) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.stored[service]
	return ok && known == content
}

func (t *thrifty) note(service string, content *inventory.Content) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if content == nil {
		delete(t.stored, service)
		return
	}
	t.stored[service] = *content
}
