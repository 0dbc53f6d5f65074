// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Rules are compiled rules in order of precedence. They are immutable and safe for concurrent use.
// A nil Rules is empty.
type Rules struct {
	rules []*rule
}

// rule judges the objects of some kinds.
type rule struct {
	group, kind string // with wildcards; an empty group is any
	verdicts    []ruleVerdict
	message     *expression.Expression // nil: the rule sets no message
}

// ruleVerdict is one verdict of a rule, and its condition.
type ruleVerdict struct {
	state State
	holds *expression.Expression
}

// RuleError describes the defect of a rule.
type RuleError struct {
	// Group and Kind are the rule's.
	Group, Kind string
	// Field is the part of the rule that is wrong.
	Field string
	// Err is a *expression.CompileError if Field is an expression.
	Err error
}

// Error implements error.
func (e *RuleError) Error() string {
	name := e.Kind
	if e.Group != "" {
		name = e.Group + "/" + e.Kind
	}
	return fmt.Sprintf("health rule for %s: %s: %v", name, e.Field, e.Err)
}

// Unwrap returns Err.
func (e *RuleError) Unwrap() error {
	return e.Err
}

// Compile compiles rules. It leaves out invalid ones, and returns a *RuleError for each.
func Compile(rules []syncpolicy.HealthRule) (*Rules, []error) {
	compiled, errs := &Rules{}, []error(nil)
	for _, r := range rules {
		one, err := compile(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		compiled.rules = append(compiled.rules, one)
	}
	return compiled, errs
}

func compile(r syncpolicy.HealthRule) (*rule, error) {
	wrong := func(field string, err error) error {
		return &RuleError{Group: r.Group, Kind: r.Kind, Field: field, Err: err}
	}
	if r.Kind == "" {
		return nil, wrong("kind", errors.New("a rule needs a kind"))
	}
	if r.Healthy == "" && r.Progressing == "" && r.Degraded == "" {
		return nil, wrong("healthy", errors.New("a rule without any condition would leave every object progressing"))
	}
	compiled := &rule{group: r.Group, kind: r.Kind}
	for _, part := range []struct {
		state  State
		source string
	}{{Degraded, r.Degraded}, {Progressing, r.Progressing}, {Healthy, r.Healthy}} {
		if part.source == "" {
			continue
		}
		holds, err := expression.Compile(part.source, expression.Bool)
		if err != nil {
			return nil, wrong(strings.ToLower(part.state.String()), err)
		}
		compiled.verdicts = append(compiled.verdicts, ruleVerdict{part.state, holds})
	}
	if r.Message != "" {
		message, err := expression.Compile(r.Message, expression.Text)
		if err != nil {
			return nil, wrong("message", err)
		}
		compiled.message = message
	}
	return compiled, nil
}

// find returns the first rule for a kind, or nil if no rule covers it.
func (r *Rules) find(group, kind string) *rule {
	if r == nil {
		return nil
	}
	for _, candidate := range r.rules {
		if candidate.matches(group, kind) {
			return candidate
		}
	}
	return nil
}

func (r *rule) matches(group, kind string) bool {
	return syncpolicy.Match(r.kind, kind) && syncpolicy.MatchGroup(r.group, group)
}

// judge returns the first verdict whose condition holds. If an expression cannot be evaluated the
// object counts as progressing, and never as healthy.
func (r *rule) judge(o object) Verdict {
	for _, v := range r.verdicts {
		holds, err := v.holds.Holds(context.Background(), o)
		if err != nil {
			return Verdict{State: Progressing, Message: r.complain(o, v.state, err)}
		}
		if holds && v.state == Healthy {
			return Verdict{State: Healthy}
		}
		if holds {
			return Verdict{State: v.state, Message: r.explain(o)}
		}
	}
	return Verdict{State: Progressing, Message: r.explain(o)}
}

func (r *rule) complain(o object, state State, err error) string {
	if errors.Is(err, expression.ErrMissing) && at(o, "status") == nil {
		return noStatus
	}
	return fmt.Sprintf("the rule for the state %s cannot be evaluated: %v", strings.ToLower(state.String()), err)
}

const noStatus = "its controller has not reported a status yet"

// explain returns why the object is not healthy.
func (r *rule) explain(o object) string {
	if r.message != nil {
		message, err := r.message.Text(context.Background(), o)
		if message = strings.Trim(message, ": \n"); err == nil && message != "" {
			return message
		}
	}
	if status, ok := at(o, "status").(object); !ok || len(status) == 0 {
		return noStatus
	}
	ready, message := conditionOf(o, "Ready"), text(o, "status", "message")
	switch {
	case ready.status != isTrue && ready.say() != "":
		return ready.say()
	case message != "":
		return message
	}
	for _, field := range [...]string{"phase", "state"} {
		if where := text(o, "status", field); where != "" {
			return "its " + field + " is " + where
		}
	}
	return "is not healthy yet, and its status does not say why"
}
