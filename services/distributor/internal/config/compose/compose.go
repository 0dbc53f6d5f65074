// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package compose decides what services obtain. It composes the configuration of each from layers,
// decides what it is given for references, and decides when that is a new version.
//
// # Promises
//
// Settle writes what differs from the stored state, and nothing else, so a second Settle writes
// nothing. Equal content of one service has equal digests, and two services with the same secrets
// have different ones. A service that a rollout holds at a configuration keeps that one, and
// continues to be given what back ends answer for its references. No service obtains what another
// service was given, except that variants of one global service inherit from each other.
//
// # States
//
// A configuration is empty, complete, complete with a problem, or waiting: then the service must not
// be changed until the problem is corrected. State records which.
//
// # Limits
//
// Services refer to at most MaxEntries paths of one back end, and services of one project to at most
// MaxProjectEntries. There are at most MaxVariants variants, and MaxVariantsOfGlobal of one global
// service. Statements of a store grow with the number of services divided by ChunkSize.
//
// # What it does not do
//
// It does not store anything: a Reader and a Store do, in one transaction of the caller. It does not
// decide which services an edit affects, and does not evaluate expressions of global services. The
// precedence of layers is in package layers. What one entry of a back end gives is in package configs.
package compose

import (
	"cmp"
	"context"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Limits of what Settle and Keep store.
const (
	// ChunkSize is how many services or variants are read and written at once.
	ChunkSize = 200
	// MaxEntries bounds the paths of one back end that services refer to.
	MaxEntries = 10_000
	// MaxProjectEntries bounds the paths of one back end that services of one project refer to, so
	// that no project can use up the room of the others.
	MaxProjectEntries = 2_000
	// MaxVariants bounds the variants of all global services together, and MaxVariantsOfGlobal
	// the variants of one.
	MaxVariants         = 20_000
	MaxVariantsOfGlobal = 2_000
	// maxInherited bounds the variants that a new one may have values from.
	maxInherited = 100
)

// Reader reads the parts of configurations, in one transaction. All its methods read the same
// state, and see what the transaction has written. One goroutine calls them, one call at a time. The
// caller does not change what they return. An error ends the transaction, and the caller does not
// repeat a call. Errors match catalog.ErrUnavailable if the store does not answer.
type Reader interface {
	// Services returns services by uid, in any order. A service that does not exist is missing.
	Services(ctx context.Context, uids []string) ([]*Service, error)
	// Project returns a project. The project default exists even if it is not stored. Another
	// project that does not exist is an error.
	Project(ctx context.Context, name string) (*catalog.Project, error)
	// Set returns a set with its secrets, or nil if it does not exist.
	Set(ctx context.Context, path string) (*catalog.ConfigSet, error)
	// Backends returns all back ends, without their credentials.
	Backends(ctx context.Context) ([]*catalog.ConfigBackend, error)
	// Entries returns stored entries. An entry that is not known is missing.
	Entries(ctx context.Context, keys []EntryKey) (map[EntryKey]Entry, error)
	// Held returns the configurations of these names that rollouts may hold services at. One that is
	// not stored is missing.
	Held(ctx context.Context, names []string) (map[string]*Held, error)
	// Digest returns a keyed digest of a content: the same on every replica, and of no use to find
	// the content without the key.
	Digest(content []byte) string
}

// Store is a Reader whose transaction is an edit: until it ends, no other edit changes what was read.
// A transaction that fails leaves nothing of what Link, Save and Add wrote.
//
// Link, Save and Add make the edit a change of the catalog, with a number of its own, if it is not
// one yet. The rule calls them only if they change something.
type Store interface {
	Reader

	// Links returns what services refer to. A service that refers to nothing may be missing.
	Links(ctx context.Context, uids []string) (map[string]Links, error)
	// Variants returns the variants of these ids, in any order. One that has ended or is not stored
	// is missing.
	Variants(ctx context.Context, ids []string) ([]*Variant, error)
	// Paths returns the largest number of known paths of one back end. With a project it counts only
	// the paths that services of the project refer to, including derived services.
	Paths(ctx context.Context, project string) (int, error)
	// Link replaces what some services and variants refer to. It makes entries known that were not,
	// due at once, and returns their number.
	Link(ctx context.Context, changed Linking) (added int, err error)
	// Save writes what differs. Services and variants are from the last read of each.
	Save(ctx context.Context, next Settlement) error
}

// VariantStore is a Store with what it takes to add variants.
type VariantStore interface {
	Store

	// Missing returns the wanted variants that are not stored, or have ended, and whose global
	// service exists.
	Missing(ctx context.Context, wanted []catalog.ConfigVariant) ([]catalog.ConfigVariant, error)
	// Given returns what variants of a global service were given, the latest first, at most limit.
	Given(ctx context.Context, globalUID string, limit int) ([]map[string]configs.Value, error)
	// Add writes variants that Missing has returned.
	Add(ctx context.Context, variants []*Variant) error
	// Numbers returns how many variants each global service has, by its path.
	Numbers(ctx context.Context) (map[string]int, error)
}

// Service is a service, and what was decided about it last.
type Service struct {
	UID, Name string
	// Cluster has its name, its labels and its annotations. Nil: it does not exist.
	Cluster *catalog.Cluster
	// Sets are the paths of the sets that the service lists, the lowest first.
	Sets []string
	// Own is the configuration in its document, with secrets. It may be nil.
	Own *catalog.Config
	// State is shown to readers of the catalog.
	State State
	// Given holds the values for the references of its own configuration, by key, and HeldGiven the
	// values for the references of the configuration that it is held at.
	Given, HeldGiven map[string]configs.Value
	// HeldName is the name of the configuration that a rollout holds the service at. Empty: none.
	HeldName string
}

func (s *Service) project() string { return objectname.Project(s.Name) }

// State is the last decision about the configuration of a service.
type State struct {
	// Digest is a digest of everything that the service is given; empty: nothing.
	Digest string
	// Name is the name of a catalog.StagedConfig. It is empty without a digest, and if a layer refers
	// to a missing value.
	Name string
	// Held is given to the service instead while it is held; nil: it is not held, or at its own.
	Held *catalog.HeldConfig
	// Problem is the problem; nil: none. Waits means that the service must not be changed.
	Problem *catalog.Problem
	Waits   bool
}

// Held is a configuration that rollouts may hold services at.
type Held struct {
	catalog.StagedConfig

	// Literals are the values, the secrets, and the references that the agent follows itself.
	Literals *catalog.Config
}

// Variant holds the values of back ends for derived services with equal references.
type Variant struct {
	catalog.ConfigVariant

	// Entries are the entries that it refers to, sorted.
	Entries []EntryKey
	// Given, Digest, Problem and Waits are the last decision about it.
	Given   map[string]configs.Value
	Digest  string
	Problem *catalog.Problem
	Waits   bool
}

// EntryKey names an entry: a path of a back end.
type EntryKey struct{ BackendUID, Path string }

// Compare orders keys.
func (k EntryKey) Compare(other EntryKey) int {
	return cmp.Or(cmp.Compare(k.BackendUID, other.BackendUID), cmp.Compare(k.Path, other.Path))
}

// Entry is a stored entry.
type Entry struct {
	configs.State
	// Version is the back end's word for the last good answer.
	Version string
	// DueAt is when the hub reads it next.
	DueAt time.Time
}

// Links are the sets and entries that a service refers to.
type Links struct {
	// Sets are the sets that it looked for, by path. False: there was none to use.
	Sets map[string]bool
	// Entries are sorted.
	Entries []EntryKey
}

// Linking holds the new references of services and variants. One that is missing in a map refers to
// the same as before.
type Linking struct {
	// Sets are the sets that services looked for, by the uid of the service.
	Sets map[string]map[string]bool
	// Services and Variants are sorted entries, by uid or id.
	Services, Variants map[string][]EntryKey
}

// Settlement holds what differs from the stored state.
type Settlement struct {
	// States are services whose State differs.
	States []*Service
	// Given and HeldGiven are services for which the map of that name differs. An empty map: the
	// service is given nothing any more.
	Given, HeldGiven []*Service
	// Variants differ in anything.
	Variants []*Variant
}

func (s Settlement) isEmpty() bool {
	return len(s.States)+len(s.Given)+len(s.HeldGiven)+len(s.Variants) == 0
}
