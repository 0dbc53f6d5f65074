// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"sync"
)

// Cache is a Store that does not save a record whose content is stored already. Saves of one
// service must not overlap; otherwise it is safe for concurrent use.
type Cache struct {
	store Store

	mu     sync.Mutex
	listed bool
	stored map[string]Content // by service; zero: unknown content; missing: nothing is stored
}

// NewCache returns a cache in front of store.
func NewCache(store Store) *Cache {
	return &Cache{store: store, stored: map[string]Content{}}
}

// List implements Store. Only the first list fills the cache: later ones may be older than what was
// saved meanwhile.
func (c *Cache) List(ctx context.Context) ([]Record, error) {
	records, err := c.store.List(ctx)
	if err != nil || !c.isFirstList() {
		return records, err
	}
	for _, record := range records {
		content, _ := record.Content() // zero after an error
		c.remember(record.Service, content)
	}
	return records, nil
}

func (c *Cache) isFirstList() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.listed = true }()
	return !c.listed
}

// Save implements Store.
func (c *Cache) Save(ctx context.Context, record Record) error {
	content, err := record.Content()
	if err != nil {
		return err
	}
	if c.has(record.Service, content) {
		return nil
	}
	c.remember(record.Service, Content{}) // after an error it is unknown whether the record was stored
	if err := c.store.Save(ctx, record); err != nil {
		return err
	}
	c.remember(record.Service, content)
	return nil
}

// Delete implements Store.
func (c *Cache) Delete(ctx context.Context, service string) error {
	c.remember(service, Content{})
	err := c.store.Delete(ctx, service)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.stored, service)
	}
	return err
}

// MayHold reports whether a record of the service may be stored.
func (c *Cache) MayHold(service string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.stored[service]
	return known
}

func (c *Cache) has(service string, content Content) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return content != Content{} && c.stored[service] == content
}

func (c *Cache) remember(service string, content Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored[service] = content
}
