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
	stored map[string]inventory.Content // by service; zero where it is not certain what is stored, none where nothing is
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
		content, _ := record.Content() // zero after an error
		t.note(record.Service, content)
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
	t.note(record.Service, inventory.Content{}) // an error does not say whether it was stored
	if err := t.Inventories.Save(ctx, record); err != nil {
		return err
	}
	t.note(record.Service, content)
	return nil
}

// Delete implements Inventories.
func (t *thrifty) Delete(ctx context.Context, service string) error {
	t.note(service, inventory.Content{})
	err := t.Inventories.Delete(ctx, service)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.stored, service)
	}
	return err
}

// keeps tells whether something may be stored of a service.
func (t *thrifty) keeps(service string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, kept := t.stored[service]
	return kept
}

func (t *thrifty) has(service string, content inventory.Content) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return content != inventory.Content{} && t.stored[service] == content
}

func (t *thrifty) note(service string, content inventory.Content) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored[service] = content
}
