// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const (
	// withheld stands for a message while the secrets that it may hold are unknown.
	withheld = "(withheld until the secrets of the service are known)"
	// maxSecrets bounds the bytes of the secrets of one service that are masked besides its last
	// render's. More than one configuration is among them only while none of them can be applied.
	maxSecrets = 4 << 20
	// learnInterval is the time until secrets that cannot be read are tried again.
	learnInterval = time.Minute
	// learnTimeout bounds the time for the secrets of one service.
	learnTimeout = 15 * time.Second
)

// secrets masks the messages of controllers and health rules about objects. Both can repeat an
// object's content, and that may be a secret of its service.
//
// A render shows the secrets of the objects that it makes. Until a run has applied these, the
// objects in the cluster may hold secrets of earlier renders, and for a while longer messages may,
// because a watch shows a change later than an apply. So the secrets from before the last change
// are masked, too.
//
// After a restart the secrets of the objects in the cluster are read from what the agent keeps,
// when there is a message to mask. Until then the message is withheld. It is safe for concurrent
// use.
type secrets struct {
	learn  func(context.Context, plan.Service) (*render.Substitution, error)
	logger *slog.Logger
	wanted wake.Signal // one token when a service became wanted

	mu       sync.Mutex
	services map[string]*serviceSecrets
}

// serviceSecrets are the secrets of one service.
type serviceSecrets struct {
	stored   inventory.Record // the name and the entry that an earlier process has applied, until isKnown
	changed  func()           // called when isKnown has become true without a run
	isKnown  bool             // current holds the secrets of all objects in the cluster
	isWanted bool             // a message was withheld

	rendered []string             // the secrets of the last render, sorted, as those below
	current  []string             // what the objects in the cluster may hold
	before   []string             // what they may have held before the last change
	masks    *render.Substitution // of current and before; nil: there are none
}

// set replaces what the objects may hold.
func (k *serviceSecrets) set(current, before []string) {
	if slices.Equal(k.current, current) && slices.Equal(k.before, before) {
		return
	}
	k.current, k.before, k.masks = current, before, nil
	if all := joined(current, before); len(all) > 0 {
		k.masks = render.Concealing(all...)
	}
}

// joined returns the texts of both lists, sorted, each once.
func joined(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func newSecrets(learn func(context.Context, plan.Service) (*render.Substitution, error), logger *slog.Logger) *secrets {
	return &secrets{learn: learn, logger: logger, wanted: wake.NewSignal(), services: map[string]*serviceSecrets{}}
}

// add adds a service with what an earlier process has stored of it.
func (s *secrets) add(record inventory.Record, changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services[record.Service] = &serviceSecrets{
		stored: inventory.Record{Service: record.Service, Entry: record.Entry}, changed: changed,
		isKnown: record.Objects.Len() == 0 && len(record.Hooks.Objects) == 0,
	}
}

// forget drops a service.
func (s *secrets) forget(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, service)
}

// setRendered takes over the secrets of what was rendered last, and will be applied.
func (s *secrets) setRendered(service string, rendered *render.Substitution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.services[service]
	if known == nil {
		return
	}
	known.rendered = rendered.Secrets()
	current, size := joined(known.current, known.rendered), 0
	for _, text := range current {
		size += len(text)
	}
	if size > maxSecrets {
		current = known.rendered
	}
	known.set(current, known.before)
}

// settle records that the objects in the cluster are the last rendered ones.
func (s *secrets) settle(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.services[service]
	if known == nil {
		return
	}
	known.isKnown, known.isWanted, known.stored = true, false, inventory.Record{}
	if !slices.Equal(known.current, known.rendered) {
		known.set(known.rendered, known.current)
	}
}

// mask returns a text about an object of a service without the service's secrets. Text about an
// object of no service stays as it is. Text about one of an unknown service is withheld: it may be
// another agent's.
func (s *secrets) mask(service, text string) string {
	if text == "" || service == "" {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.services[service]
	switch {
	case known == nil:
		return withheld
	case !known.isKnown && !known.isWanted:
		known.isWanted = true
		s.wanted.Set()
		return withheld
	case !known.isKnown:
		return withheld
	}
	return known.masks.Mask(text)
}

// judging returns a function that judges as judge does, and masks the message.
func (s *secrets) judging(judge judgeFunc) judgeFunc {
	return func(o *unstructured.Unstructured) health.Verdict {
		return s.verdict(k8s.ServiceOf(o), judge(o))
	}
}

// verdict returns a verdict on an object of a service with its message masked.
func (s *secrets) verdict(service string, v health.Verdict) health.Verdict {
	v.Message = s.mask(service, v.Message)
	return v
}

// run reads the secrets that are wanted, until ctx is done. It retries failed reads.
func (s *secrets) run(ctx context.Context) {
	for wait := time.Duration(math.MaxInt64); s.wanted.Await(ctx, wait) == nil; {
		wait = math.MaxInt64
		for service, record := range s.takeWanted() {
			if err := s.read(ctx, service, record); err != nil && ctx.Err() == nil {
				s.logger.DebugContext(ctx, "secrets of a service cannot be read, its messages stay withheld",
					slog.String("leat.service", service), slog.Any("error", err))
				wait = learnInterval
			}
		}
	}
}

// takeWanted returns the stored data of the services whose secrets are wanted.
func (s *secrets) takeWanted() map[string]inventory.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]inventory.Record{}
	for service, known := range s.services {
		if known.isWanted && !known.isKnown {
			wanted[service] = known.stored
		}
	}
	return wanted
}

var errNoEntry = errors.New("the inventory does not say what was applied")

// read reads the secrets of what an earlier process has applied.
func (s *secrets) read(ctx context.Context, service string, record inventory.Record) error {
	entry := entryOf(record)
	if entry.Name == "" {
		return errNoEntry
	}
	limited, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	applied, err := s.learn(limited, entry)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.services[service]
	if known == nil || known.isKnown {
		s.mu.Unlock()
		return nil
	}
	known.isKnown, known.stored = true, inventory.Record{}
	known.set(joined(known.current, applied.Secrets()), known.before)
	s.mu.Unlock()
	known.changed()
	return nil
}
