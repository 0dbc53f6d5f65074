// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const maxSubjects = 256

// AccessBinding gives people a role in a scope.
type AccessBinding struct {
	Metadata
	Spec AccessBindingSpec
}

// Key implements Object.
func (b *AccessBinding) Key() Key { return Key{KindAccessBinding, b.Name} }

func (b *AccessBinding) sameSpec(other Object) bool {
	o, ok := other.(*AccessBinding)
	return ok && reflect.DeepEqual(b.Spec, o.Spec)
}

func (b *AccessBinding) clone() Object { return new(*b) }

func (b *AccessBinding) normalize()          { b.Spec.normalize() }
func (b *AccessBinding) settle(Object) error { return nil }
func (b *AccessBinding) reachable() error    { return nil }

func (b *AccessBinding) checkReferences(ctx context.Context, tx Reader) error {
	if _, isBuiltin := BuiltinRole(b.Spec.Role); isBuiltin {
		return nil
	}
	key := Key{KindRole, string(b.Spec.Role)}
	if _, err := tx.Get(ctx, key); errors.Is(err, ErrNotFound) {
		return &ReferenceError{Key: key, Path: "spec.role"}
	} else if err != nil {
		return err
	}
	return nil
}

func (b *AccessBinding) checkSettled(context.Context, Reader) error { return nil }
func (b *AccessBinding) room(ProjectQuotas) Room                    { return Room{} }
func (b *AccessBinding) secrets() map[string]any                    { return nil }
func (b *AccessBinding) changesRelease(Object) bool                 { return false }

// Place implements Object.
func (b *AccessBinding) Place() Place { return Place{Binding: &b.Spec} }

// Expired reports whether the binding has ended.
func (b *AccessBinding) Expired(at time.Time) bool {
	return !b.Spec.ExpiresAt.IsZero() && !at.Before(b.Spec.ExpiresAt)
}

// Validate implements Object.
func (b *AccessBinding) Validate() error {
	s := b.Spec
	if err := cmp.Or(b.validate(KindAccessBinding), check.Description(s.Description)); err != nil {
		return err
	}
	if len(s.Users)+len(s.Groups) == 0 {
		return fielderr.New("spec.users", "is required: name at least one user or group")
	}
	return cmp.Or(
		fielderr.Each("spec.users", "items", s.Users, maxSubjects, validateSubject),
		fielderr.Each("spec.groups", "items", s.Groups, maxSubjects, validateGroup),
		s.validateScope(),
		s.validateRole(),
		fielderr.Each("spec.rules", "rules", s.Rules, maxRules, func(field string, rule accessrule.Rule) error {
			return fielderr.Within(field, rule.Validate())
		}),
	)
}
