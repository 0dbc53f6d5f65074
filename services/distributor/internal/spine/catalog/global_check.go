// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
	"github.com/leatdev/leat/services/distributor/internal/spine/parameter"
)

const (
	maxOverrides = 64
	maxWhen      = 4 << 10
	// MaxWhenCost bounds the cost of a condition for one cluster, in CEL's own unit. An edit waits until
	// conditions are evaluated for every cluster that it concerns; a typical one costs less than twenty.
	MaxWhenCost = 10_000
	// maxTemplateBytes bounds the template and all overrides together, as JSON: derived services of all
	// global services share the plan of their cluster.
	maxTemplateBytes = 64 << 10
	// maxGlobalConfig bounds all configurations of a global service together.
	maxGlobalConfig = 1 << 20
	templateField   = "spec.template"
)

// maxStepPatches bounds the render steps that one override changes.
const maxStepPatches = 16

// Validate implements Object.
func (g *GlobalService) Validate() error {
	err := cmp.Or(
		g.validate(KindGlobalService),
		check.Description(g.Spec.Description),
		g.Spec.Clusters.validateTarget("spec.clusters"),
		g.validateTemplate(),
		fielderr.Each("spec.overrides", "items", g.Spec.Overrides, maxOverrides, g.validateOverride),
		g.validateNames(),
		g.Spec.Removal.validate(),
		g.Spec.pause().Validate("spec.paused"),
		g.validateSize(),
	)
	if err != nil {
		return err // a body is made of parts that are valid alone
	}
	return g.validateBodies()
}

func (t ClusterTarget) validateTarget(field string) error {
	if t.IsEmpty() && t.When == "" {
		return fielderr.New(field, "is required: names, labels, when, or all: true")
	}
	if t.All && (len(t.Names) > 0 || t.Labels != nil) {
		return fielderr.New(field+".all", "means all clusters already; leave out names and labels, or all")
	}
	if err := fielderr.Each(field+".names", "items", t.Names, maxClusterNames, objectname.Validate); err != nil {
		return err
	}
	if t.Labels != nil {
		if err := t.Labels.validate(field + ".labels"); err != nil {
			return err
		}
	}
	if t.When == "" {
		return nil
	}
	if len(t.When) > maxWhen {
		return fielderr.New(field+".when", "has %d bytes; at most %d are allowed", len(t.When), maxWhen)
	}
	condition, err := t.Condition()
	if err == nil {
		err = checkFacts(condition)
	}
	if err != nil {
		return fielderr.New(field+".when", "%s", err)
	}
	return nil
}

// facts are the fields of self that expressions of a global service see, as package derive makes
// them. Nil: everything below is free, such as labels.
func facts() map[string][]string {
	return map[string][]string{
		"name": {}, "project": {}, "labels": nil, "annotations": nil,
		"kubernetes": {"version", "major", "minor", "provider"}, "agent": {"version", "capabilities"},
	}
}

// checkFacts returns an error if an expression names a field of self that no cluster has. Without it the
// expression would be false, or fail, for every cluster.
func checkFacts(e *expression.Expression) error {
	known := facts()
	for _, path := range e.Paths() {
		below, ok := known[path[0]]
		switch {
		case !ok:
			return fmt.Errorf("self has no field %s; its fields are %s", path[0], strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case len(path) == 1, below == nil:
		case len(below) == 0:
			return fmt.Errorf("self.%s is a text, which has no field %s", path[0], path[1])
		case !slices.Contains(below, path[1]):
			return fmt.Errorf("self.%s has no field %s; its fields are %s", path[0], path[1], strings.Join(below, ", "))
		}
	}
	return nil
}

// Condition compiles When. An evaluation may cost MaxWhenCost.
func (t ClusterTarget) Condition() (*expression.Expression, error) {
	return expression.CompileWithin(t.When, expression.Bool, MaxWhenCost)
}

func (g *GlobalService) validateTemplate() error {
	spec := g.Spec.Template.Spec
	if spec.Cluster != "" {
		return fielderr.New(templateField+".cluster", "must be left out; spec.clusters says which clusters have the service")
	}
	if len(spec.Sources) == 0 {
		return fielderr.New(templateField+".sources", "is required: name at least one source")
	}
	return validateSetList(templateField+".config_sets", spec.ConfigSets)
}

func (g *GlobalService) validateOverride(field string, o ServiceOverride) error {
	err := cmp.Or(
		objectname.ValidateLabel(field+".name", o.Name), o.Clusters.validateTarget(field+".clusters"), validateSetList(field+".config_sets", o.ConfigSets),
		o.Patch.pause().Validate(field+".paused"),
	)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(o.Patch.Labels)) {
		if isReserved(key) {
			return fielderr.New(field+".labels["+key+"]", "is reserved: keys of %s/ belong to the hub; choose another one", reservedDomain)
		}
	}
	steps := g.Spec.Template.Spec.Wanted().Render
	err = fielderr.Each(field+".render", "items", o.Patch.Render, maxStepPatches, func(field string, p StepPatch) error {
		switch {
		case p.Step < 0 || p.Step >= len(steps):
			return fielderr.New(field+".step", "%d is not the index of a render step of the template, which has %d", p.Step, len(steps))
		case steps[p.Step].Renderer != renderstep.Helm:
			return fielderr.New(field+".step", "%d renders no chart: values are for steps with helm", p.Step)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fielderr.Each(field+".sources", "items", o.Patch.Sources, MaxSources, func(field string, p SourcePatch) error {
		if p.Source < 0 || p.Source >= len(g.Spec.Template.Spec.Sources) {
			return fielderr.New(field+".source", "%d is not the index of a source of the template, which has %d", p.Source, len(g.Spec.Template.Spec.Sources))
		}
		return nil
	})
}

func (g *GlobalService) validateNames() error {
	seen := map[string]bool{}
	for i, override := range g.Spec.Overrides {
		if seen[override.Name] {
			return fielderr.New(fielderr.Indexed("spec.overrides", i)+".name", "%q is the name of an earlier override, too", override.Name)
		}
		seen[override.Name] = true
	}
	return nil
}

func (p RemovalPolicy) validate() error {
	if p.MaxPercent != nil && (*p.MaxPercent < 0 || *p.MaxPercent > 100) {
		return fielderr.New("spec.removal.max_percent", "is %d; from 0 to 100", *p.MaxPercent)
	}
	if p.Confirmation != "" {
		if _, err := digest.Parse(p.Confirmation); err != nil {
			return fielderr.New("spec.removal.confirmation", "is not the digest that the refusal named")
		}
	}
	return nil
}

func (g *GlobalService) validateSize() error {
	total := 0
	for i, config := range g.Configs() {
		if config == nil {
			continue
		}
		if err := config.validate(); err != nil {
			return inConfig(g.configFields()[i], err)
		}
		for key, text := range config.Values {
			total += len(key) + len(text)
		}
		for key, text := range config.Secrets {
			total += len(key) + len(text)
		}
		for key, text := range config.References {
			total += len(key) + len(text)
		}
	}
	if total > maxGlobalConfig {
		return fielderr.New("spec", "has configurations of %d bytes together; at most %d are allowed", total, maxGlobalConfig)
	}
	size := 0
	for _, part := range g.patches() {
		text, err := json.Marshal(part)
		if err != nil {
			return fielderr.New(templateField, "cannot be stored")
		}
		size += len(text)
	}
	if size > maxTemplateBytes {
		return fielderr.New(templateField, "has %d bytes with all overrides; at most %d are allowed; put values into files", size, maxTemplateBytes)
	}
	return nil
}

// patches returns the stored form of the template and of the overrides.
func (g *GlobalService) patches() []any {
	all := []any{g.Spec.Template.Labels, g.Spec.Template.Annotations, g.Spec.Template.Spec.Sources, g.Spec.Template.Spec.Options}
	for _, override := range g.Spec.Overrides {
		all = append(all, override.Patch)
	}
	return all
}

// inConfig puts the field of a configuration of a global service in place of a service's.
func inConfig(field string, err error) error {
	e, ok := err.(*fielderr.Error) //nolint:errorlint // validate returns it bare
	if !ok {
		return err
	}
	return &fielderr.Error{Path: field + strings.TrimPrefix(e.Path, configPath), Message: e.Message}
}

// validateBodies checks the template alone, and with each override over it, with an example for every
// parameter.
func (g *GlobalService) validateBodies() error {
	parser := parameter.Parser{Check: checkFacts}
	if err := g.validateBody(&parser, templateField, nil); err != nil {
		return err
	}
	return fielderr.Each("spec.overrides", "items", g.Spec.Overrides, maxOverrides, func(field string, o ServiceOverride) error {
		i := slices.IndexFunc(g.Spec.Overrides, func(other ServiceOverride) bool { return other.Name == o.Name })
		return g.validateBody(&parser, field, []int{i})
	})
}

func (g *GlobalService) validateBody(parser *parameter.Parser, field string, overrides []int) error {
	body := g.Body(overrides)
	tree, err := body.Tree(parser)
	if err != nil {
		return InBody(field, err)
	}
	body = tree.With(tree.Samples())
	return InBody(field, body.Service(g.DerivedPath("x")).Validate())
}

// checkGlobalConfig checks what the configurations of a global service name. References that hold facts are
// left to the derived services, which have their clusters.
func checkGlobalConfig(ctx context.Context, tx Reader, g *GlobalService, own *Project) error {
	fields := g.configFields()
	for i, layer := range g.configLayers() {
		if err := checkSetList(ctx, tx, own, strings.TrimSuffix(fields[i], ".config")+".config_sets", layer.Sets); err != nil {
			return err
		}
		if err := checkConfig(ctx, tx, fields[i], layer.Config, own, nil); err != nil {
			return err
		}
	}
	return nil
}
