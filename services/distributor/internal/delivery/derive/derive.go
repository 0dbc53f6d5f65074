// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package derive makes the services that global services stand for: one for each cluster that a global
// service selects.
//
// It is pure: an equal global service and an equal cluster give an equal service, on every replica and
// after every restart, with the same uid. So nothing of a derived service is stored but what agents
// report of it.
//
// # Order
//
// The template comes first. The overrides that select the cluster are put over it in the order of the
// document, so a later one wins: its values and secrets replace those of the same key, its policy
// replaces the whole policy, and omitted fields stay. spec.paused of the global service pauses
// every derived service. Parameters are filled in last, so an override may have some, too.
//
// # Memory
//
// A fleet has many more derived services than different ones. Services with equal content share
// sources, options, configuration, labels and annotations; of its own each has a name and a uid. Contents
// that differ, such as by the name of the cluster in the values of a chart, share what has no parameters.
package derive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/parameter"
)

// MaxCost bounds the cost of one derived service, in CEL's own unit: of the conditions of all overrides
// and of all parameters together. A typical parameter costs less than ten. The most expensive service
// takes about half a second.
const MaxCost = 200_000

// maxShared bounds the different contents that one global service remembers. Beyond it everything
// is forgotten, and later derivations share nothing with earlier ones.
const maxShared = 1 << 14

// Error is why a global service has no service for a cluster now.
type Error struct {
	// Global and Cluster are paths.
	Global, Cluster string
	// Field is in the document of the global service.
	Field   string
	Message string

	cause error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s of global service %s fails for cluster %s: %s", e.Field, objectname.Display(e.Global), objectname.Display(e.Cluster), e.Message)
}

// Unwrap returns the cause: one that matches [expression.ErrTooExpensive] means that the expressions cost
// more than MaxCost, or a condition more than it may.
func (e *Error) Unwrap() error { return e.cause }

// Global is a global service with its expressions compiled. It is for one goroutine at a time.
type Global struct {
	global    *catalog.GlobalService
	clusters  target
	overrides []target
	// variants are by the overrides that they have.
	variants map[string]*variant
	// parser compiles the parameters of all variants.
	parser parameter.Parser

	// sets are the layers of configurations besides the global service, and hasConfig reports whether
	// that has one.
	sets      Sets
	hasConfig bool
	// plain are the settings of all contents if it has none.
	plain settings
	// looked are the sets that configurations looked for.
	looked map[string]struct{}
}

// target is a choice of clusters. when is nil if nothing is asked.
type target struct {
	catalog.ClusterTarget
	when  *expression.Expression
	field string
}

// variant is the template with some overrides.
type variant struct {
	tree *parameter.Tree[catalog.ServiceBody]
	// field is the field of the template, or of the last override.
	field     string
	overrides []int
	// options are shared by all contents; nil if they have parameters.
	options *syncpolicy.Options
	// contents are by the key of the texts of parameters; derivations by how the cluster is selected.
	contents    map[string]*content
	derivations map[derivationKey]*catalog.Derivation
	// last is the content that was made last.
	last *content
}

// content is the shared part of services.
type content struct {
	labels, annotations map[string]string
	sources             []catalog.Source
	options             *syncpolicy.Options
	// config and configSets come from the documents alone.
	config     *catalog.Config
	configSets []string
	// settings are nil if the global service has no configuration.
	settings *settings
	// commons are the common parts of services of this content, up to maxCommons.
	commons []common
}

// common is a service without its cluster.
type common struct {
	derivation *catalog.Derivation
	config     *configuration
	// service is nil while one cluster alone has it.
	service *catalog.Service
}

// maxCommons bounds the common services of a content. Beyond it they are forgotten, as with maxShared: most
// contents have one, or a configuration of its own for each cluster.
const maxCommons = 16

// CompileSelection returns a global service of which Matches can be asked, and nothing else.
func CompileSelection(g *catalog.GlobalService) (*Global, error) {
	clusters, err := newTarget("spec.clusters", g.Spec.Clusters)
	return &Global{global: g, clusters: clusters}, err
}

// Compile returns a global service ready to derive from. A valid one always compiles.
func Compile(g *catalog.GlobalService) (*Global, error) {
	compiled := &Global{global: g, variants: map[string]*variant{}, hasConfig: g.HasConfig(), looked: map[string]struct{}{}}
	var err error
	if compiled.clusters, err = newTarget("spec.clusters", g.Spec.Clusters); err != nil {
		return nil, err
	}
	for i, override := range g.Spec.Overrides {
		t, err := newTarget(fielderr.Indexed("spec.overrides", i)+".clusters", override.Clusters)
		if err != nil {
			return nil, err
		}
		compiled.overrides = append(compiled.overrides, t)
	}
	return compiled, nil
}

func newTarget(field string, t catalog.ClusterTarget) (target, error) {
	compiled := target{ClusterTarget: t, field: field + ".when"}
	if t.When == "" {
		return compiled, nil
	}
	when, err := t.Condition()
	if err != nil {
		return target{}, fielderr.New(compiled.field, "%s", err)
	}
	compiled.when = when.Remembering()
	return compiled, nil
}

// Conditions returns how many bytes of expressions Compile compiles of a global service.
func Conditions(g *catalog.GlobalService) int {
	n := len(g.Spec.Clusters.When)
	for _, override := range g.Spec.Overrides {
		n += len(override.Clusters.When)
	}
	return n
}

// Parsed returns how many bytes of expressions were compiled until now, including parameters, which
// are compiled when they are first needed.
func (g *Global) Parsed() int { return Conditions(g.global) + g.parser.Bytes() }

// Spec returns the global service that was compiled.
func (g *Global) Spec() *catalog.GlobalService { return g.global }

// selects reports whether a target selects a cluster, and how. A fact that a cluster lacks makes an
// expression false.
func (t target) selects(ctx context.Context, c *Cluster) (how string, ok bool, err error) {
	if how, ok = t.Selects(c.Seen); !ok || t.when == nil {
		return how, ok, nil
	}
	if c.IsLentBare && strings.Contains(t.When, "annotations") {
		return how, true, fielderr.New(t.field, "reads annotations, and no share of project %q lists annotations of the cluster for this project (cluster_annotations)",
			objectname.Project(c.Seen.Name))
	}
	holds, err := t.when.Holds(ctx, c.Facts())
	switch {
	case errors.Is(err, expression.ErrMissing):
		return "", false, nil
	case err != nil:
		return how, true, fielderr.New(t.field, "%w", err)
	}
	if how != "when" {
		how += "+when"
	}
	return how, holds, nil
}

// Matches reports whether the global service selects the cluster, and how. Whether its project may
// use the cluster is not checked. An expression that fails selects the cluster, with an error: that
// a condition cannot be decided is no reason to take a service away.
func (g *Global) Matches(ctx context.Context, c *Cluster) (how string, ok bool, err error) {
	return g.clusters.selects(ctx, c)
}

// Held reports how a global service selects a cluster that it selects except for its condition, and
// whether it does.
func Held(g *catalog.GlobalService, cluster *catalog.Cluster) (how string, ok bool) {
	how, ok = g.Spec.Clusters.Selects(cluster)
	if how == "when" {
		return "held", ok
	}
	return how + "+held", ok
}

// Derive returns the service for a cluster that the global service selects in the given way. The error is an
// *Error.
func (g *Global) Derive(ctx context.Context, c *Cluster, how string) (Derived, error) {
	member, err := g.Resolve(ctx, c)
	if err != nil {
		return Derived{}, err
	}
	return member.Derived(how), nil
}

// Derived is a derived service. Most are members of a common one, whose services need not be made.
type Derived struct {
	// service is nil if the service is a member.
	service *catalog.Service
	member  catalog.Member
}

// IsNone reports whether there is no service.
func (d Derived) IsNone() bool { return d.service == nil && d.member.Common == nil }

// Member returns the service as a member of a common one. ok is false if it has something of its own.
func (d Derived) Member() (m catalog.Member, ok bool) { return d.member, d.member.Common != nil }

// Service returns the service. That of a member is made again for each caller.
func (d Derived) Service() *catalog.Service {
	if d.member.Common != nil {
		return d.member.Service()
	}
	return d.service
}

// Resolved is a global service for one cluster, with all expressions evaluated. It is for one
// goroutine at a time, like its Global.
type Resolved struct {
	g       *Global
	cluster *catalog.Cluster
	variant *variant
	content *content
}

// Resolve evaluates the expressions of a global service for a cluster that it selects. The error is an
// *Error.
func (g *Global) Resolve(ctx context.Context, c *Cluster) (*Resolved, error) {
	ctx = expression.WithBudget(ctx, MaxCost)
	member, field, err := g.resolve(ctx, c)
	if err != nil {
		return nil, failure(g.global, c.Seen, field, err)
	}
	return member, nil
}

// Derived returns the service of the cluster, which the global service selects in the given way.
func (m *Resolved) Derived(how string) Derived {
	config := m.g.configure(m.content, m.cluster)
	derivation := m.variant.derivation(m.g.global, how, config.backends)
	service, isShared := m.content.common(m.g.global, derivation, config)
	member := catalog.Member{Common: service, Cluster: m.cluster.Name, UID: catalog.DerivedUUID(m.g.global.UID, m.cluster.UID)}
	if isShared {
		return Derived{member: member}
	}
	own := member.Service()
	own.Common = nil
	return Derived{service: own}
}

// Compose returns the whole configuration of the service. Its secrets are the ones that the global
// service and the sets of Use hold.
func (m *Resolved) Compose() Composition {
	return compose(m.g.global, m.g.sets, m.g.settingsOf(m.content), catalog.FactsOfSeen(m.g.global.DerivedPath(m.cluster.Name), m.cluster), opened)
}

// failure returns the error of one cluster.
func failure(global *catalog.GlobalService, cluster *catalog.Cluster, field string, err error) *Error {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed
	}
	failed := &Error{Global: global.Name, Cluster: cluster.Name, Field: field, Message: err.Error(), cause: err}
	if e, ok := errors.AsType[*fielderr.Error](err); ok {
		failed.Field, failed.Message = e.Path, e.Message
	}
	return failed
}

// Failure returns the error of Matches, or of a check of what Derive returned, as an error of
// Derive.
func Failure(global *catalog.GlobalService, cluster *catalog.Cluster, err error) *Error {
	return failure(global, cluster, "spec.clusters", err)
}

func (g *Global) resolve(ctx context.Context, c *Cluster) (*Resolved, string, error) {
	var overrides []int
	for i, t := range g.overrides {
		_, ok, err := t.selects(ctx, c)
		if err != nil {
			return nil, t.field, err
		}
		if ok {
			overrides = append(overrides, i)
		}
	}
	v, err := g.variant(overrides)
	if err != nil {
		return nil, "spec.template", err
	}
	shared, err := g.content(ctx, v, c)
	if err != nil {
		return nil, v.field, catalog.InBody(v.field, err)
	}
	return &Resolved{g: g, cluster: c.Seen, variant: v, content: shared}, "", nil
}

// common returns the service that clusters with this content, derivation and configuration have. isShared is false for
// the first of them, whose service is not kept: it may be the only one.
func (c *content) common(global *catalog.GlobalService, derivation *catalog.Derivation, config *configuration) (service *catalog.Service, isShared bool) {
	for i := range c.commons {
		known := &c.commons[i]
		if known.derivation != derivation || known.config != config {
			continue
		}
		if known.service == nil {
			known.service = c.service(global, derivation, config)
		}
		return known.service, true
	}
	if len(c.commons) >= maxCommons {
		c.commons = nil
	}
	c.commons = append(c.commons, common{derivation: derivation, config: config})
	return c.service(global, derivation, config), false
}

// service returns the service of this content for no cluster yet.
func (c *content) service(global *catalog.GlobalService, derivation *catalog.Derivation, config *configuration) *catalog.Service {
	meta := global.Metadata
	meta.UID, meta.Labels, meta.Annotations = "", c.labels, c.annotations
	meta.Manager = catalog.SourceRef{} // a fleet source writes the global service, and not the derived service
	return &catalog.Service{
		Metadata: meta, ConfigDigest: config.digest, ConfigName: config.name, ConfigProblem: config.problem, ConfigWaits: config.waits,
		Derived: derivation,
		Spec:    catalog.ServiceSpec{Sources: c.sources, Options: c.options, Config: c.config, ConfigSets: c.configSets},
	}
}

// Waiting returns the placeholder of a service that was never derived for a cluster: agents change
// nothing of it, and remove nothing.
func Waiting(of *catalog.GlobalService, cluster *catalog.Cluster, problem *catalog.Problem) *catalog.Service {
	waiting := new(content).service(of, &catalog.Derivation{Global: of.Name, GlobalUID: of.UID}, none).In(cluster.Name, catalog.DerivedUID(of.UID, cluster.UID))
	waiting.ConfigWaits, waiting.ConfigProblem, waiting.Common = true, problem, nil
	return waiting
}

func (g *Global) variant(overrides []int) (*variant, error) {
	var key strings.Builder
	for _, i := range overrides {
		key.WriteString(strconv.Itoa(i))
		key.WriteByte(' ')
	}
	if v, ok := g.variants[key.String()]; ok {
		return v, nil
	}
	v := &variant{
		overrides: overrides, field: "spec.template", contents: map[string]*content{},
		derivations: map[derivationKey]*catalog.Derivation{},
	}
	body := g.global.Body(overrides)
	var err error
	if v.tree, err = body.Tree(&g.parser); err != nil {
		return nil, err
	}
	if v.tree.IsPlainBelow("options") {
		v.options = &body.Options
	}
	if len(g.variants) >= maxShared {
		clear(g.variants)
	}
	g.variants[key.String()] = v
	return v, nil
}

// derivationKey distinguishes derivations of one variant.
type derivationKey struct {
	how    string
	config *catalog.DerivedConfig
}

func (v *variant) derivation(g *catalog.GlobalService, how string, config *catalog.DerivedConfig) *catalog.Derivation {
	key := derivationKey{how, config}
	if known, ok := v.derivations[key]; ok {
		return known
	}
	d := &catalog.Derivation{Global: g.Name, GlobalUID: g.UID, Matched: how, Overrides: v.overrides, Config: config}
	for _, i := range v.overrides {
		d.OverrideNames = append(d.OverrideNames, g.Spec.Overrides[i].Name)
	}
	if len(v.derivations) >= maxShared {
		clear(v.derivations)
	}
	v.derivations[key] = d
	return d
}

// content returns what a cluster has of a variant. A content is checked once, for the first cluster that
// has it.
func (g *Global) content(ctx context.Context, v *variant, c *Cluster) (*content, error) {
	var texts []string
	if !v.tree.IsPlain() {
		var err error
		if texts, err = v.tree.Fill(ctx, c.Facts()); err != nil {
			return nil, err
		}
	}
	key := keyOf(texts)
	if known, ok := v.contents[key]; ok {
		return known, nil
	}
	body := v.tree.With(texts)
	service := body.Service(g.global.DerivedPath(c.Seen.Name))
	service.Spec.Config = shown(g.global, v.overrides, body.Values)
	if err := service.Validate(); err != nil {
		return nil, err
	}
	made := &content{
		labels: body.Labels, annotations: body.Annotations, sources: service.Spec.Sources, options: service.Spec.Options,
	}
	if v.options != nil {
		made.options = v.options
	}
	if g.hasConfig {
		made.config, made.configSets = service.Spec.Config, setsOf(g.global, v.overrides)
		made.settings = &settings{overrides: v.overrides, values: body.Values}
	}
	made.shareWith(v.last)
	v.last = made
	if len(v.contents) >= maxShared {
		clear(v.contents)
	}
	v.contents[key] = made
	return made, nil
}

// shareWith makes a content share what it has in common with another one, which may be nil: contents often differ in
// one value alone.
func (c *content) shareWith(last *content) {
	if last == nil {
		return
	}
	if maps.Equal(c.labels, last.labels) {
		c.labels = last.labels
	}
	if maps.Equal(c.annotations, last.annotations) {
		c.annotations = last.annotations
	}
	if slices.Equal(c.sources, last.sources) {
		c.sources = last.sources
	}
	if slices.Equal(c.configSets, last.configSets) {
		c.configSets = last.configSets
	}
	if c.options != nil && last.options != nil && c.options.Equal(*last.options) {
		c.options = last.options
	}
}

// maxKey bounds the texts that stand for themselves in a key.
const maxKey = 256

// keyOf returns a key for texts: one that holds them, or a digest of them if they are long.
func keyOf(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		if b.Len()+len(text) > maxKey {
			return digestOf(texts)
		}
		b.WriteString(strconv.Itoa(len(text)))
		b.WriteByte(' ')
		b.WriteString(text)
	}
	return b.String()
}

func digestOf(texts []string) string {
	s := digest.NewSequence("leat.derived.content.v1")
	for _, text := range texts {
		s.Text(text)
	}
	return s.Digest().String()
}

// Cluster is a cluster with its facts, which are made when an expression asks for them. It is for one
// goroutine at a time.
type Cluster struct {
	// Seen is the cluster as the global service's project knows it: see [catalog.Cluster.SeenBy].
	Seen *catalog.Cluster
	// IsLentBare is the result of [catalog.Cluster.IsLentBare].
	IsLentBare bool

	facts map[string]any
}

// ClusterFor returns a cluster of the project owner as global services of the project own see it. Either
// project may be nil.
func ClusterFor(cluster *catalog.Cluster, own, owner *catalog.Project) *Cluster {
	return &Cluster{Seen: cluster.SeenBy(own, owner), IsLentBare: cluster.IsLentBare(own, owner)}
}

// Facts returns what expressions see as self. A field that is not known is left out.
func (c *Cluster) Facts() map[string]any {
	if c.facts != nil {
		return c.facts
	}
	project, name := objectname.Split(c.Seen.Name)
	report := c.Seen.Agent.Report
	c.facts = map[string]any{
		"name": name, "project": project, "labels": texts(c.Seen.Labels), "annotations": texts(c.Seen.Annotations),
	}
	if report.KubernetesVersion != "" {
		c.facts["kubernetes"] = kubernetes(report.KubernetesVersion, report.Provider)
	}
	if report.AgentVersion != "" {
		c.facts["agent"] = map[string]any{"version": report.AgentVersion, "capabilities": report.Capabilities}
	}
	return c.facts
}

func texts(given map[string]string) map[string]any {
	converted := make(map[string]any, len(given))
	for key, value := range given {
		converted[key] = value
	}
	return converted
}

// kubernetes returns the facts of a version such as v1.31.4-gke.1. The numbers are left out if it
// has none.
func kubernetes(version, provider string) map[string]any {
	facts := map[string]any{"version": version, "provider": cmp.Or(providerOf(version), provider)}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	if number, err := strconv.Atoi(major); err == nil {
		facts["major"] = number
	}
	if number, err := strconv.Atoi(strings.TrimRight(minor, "+")); err == nil {
		facts["minor"] = number
	}
	return facts
}

// providerOf returns which distribution a version is of, as far as it shows it, or "".
func providerOf(version string) string {
	for _, provider := range []string{"gke", "eks", "aks", "k3s", "k0s", "rke2"} {
		if strings.Contains(version, "-"+provider) || strings.Contains(version, "+"+provider) {
			return provider
		}
	}
	return ""
}

// Same reports whether two services are equal for agents and people.
func Same(a, b *catalog.Service) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.ResourceVersion == b.ResourceVersion && a.SyncRequest == b.SyncRequest && catalog.SameException(a, b) &&
		a.ConfigDigest == b.ConfigDigest && a.ConfigName == b.ConfigName && a.ConfigWaits == b.ConfigWaits && sameProblem(a.ConfigProblem, b.ConfigProblem) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Spec.Sources, b.Spec.Sources) &&
		(a.Spec.Options == b.Spec.Options || a.Spec.Wanted().Equal(b.Spec.Wanted())) && sameDerivation(a.Derived, b.Derived)
}

func sameProblem(a, b *catalog.Problem) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Reason == b.Reason && a.Message == b.Message
}

func sameDerivation(a, b *catalog.Derivation) bool {
	return a == b || a != nil && b != nil && cmp.Compare(a.GlobalUID, b.GlobalUID) == 0 && a.Matched == b.Matched && slices.Equal(a.Overrides, b.Overrides) &&
		variantID(a) == variantID(b)
}

// variantID returns the id of the variant of a configuration, or "".
func variantID(d *catalog.Derivation) string {
	if d.Config == nil {
		return ""
	}
	return d.Config.Variant.ID
}
