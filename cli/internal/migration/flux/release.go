// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/renderstep"
)

const (
	// mount is the folder of the chart in the service's tree.
	mount = "chart"
	// defaultValues is the file of a chart's own values, and the key of values in a ConfigMap.
	defaultValues = "values.yaml"
	// maxValues bounds one text of values that is copied: the hub takes no more in a whole service.
	maxValues = 64 << 10
	// maxTarget bounds a path of values, as the hub does, and maxItems the places in lists that one path and its value name.
	maxTarget, maxItems = 1024, 64
)

// What is said of several settings of Helm.
const (
	waits     = "a service of Leat always shows whether its objects are healthy"
	retries   = "Leat tries a failed change again, and takes nothing back; a rollout policy with onHalt: rollback does"
	noRelease = "Leat records no releases"
	inStep    = "add a kustomize step with fromPrevious to spec.render"
)

// chart is the chart of a HelmRelease.
type chart struct {
	from *source
	// name is that of the chart, or its folder in Git.
	name, version string
	valuesFiles   []string
	missing       string
}

// release makes a service of a HelmRelease.
func (t *translation) release(o *object) {
	f := o.spec
	cluster, reason := t.cluster(o)
	if reason != "" {
		o.drop(migration.Refused, reason)
		return
	}
	c := t.chartOf(o)
	if c.missing != "" {
		o.drop(migration.Refused, c.missing)
		return
	}
	target := f.Text("targetNamespace")
	d, spec := t.services.New(cluster, cmp.Or(target, o.Namespace), o.Name, o.Namespace+"-"+o.Name)
	if spec.GetNamespace() == "" {
		o.Fields.Note("", migration.Check, "the object names no namespace; set spec.namespace to that of its release")
	}
	helm := &typev1.HelmStep{Installed: true, SkipTests: true}
	step := &typev1.RenderStep{Path: mount, Renderer: &typev1.RenderStep_Helm{Helm: helm}}
	spec.Render = []*typev1.RenderStep{step}
	source, reason := t.chartSource(c, step)
	if reason != "" {
		o.drop(migration.Refused, reason)
		return
	}
	spec.Sources = []*typev1.Source{source}
	name := releaseName(cmp.Or(f.Text("releaseName"), strings.TrimPrefix(target+"-"+o.Name, "-")))
	if name != d.GetService().GetMetadata().GetName() {
		helm.ReleaseName = name
	}
	helm.Values = t.values(o)
	t.common(o, spec)
	t.actions(o, spec, helm)
	drift(f.Part("driftDetection"), spec.GetPolicy())
	f.Skip("interval", "status")
	f.Without(migration.Missing, inStep, "commonMetadata", "postRenderers", "postRenderStrategy")
	f.Without(migration.Needless, noRelease, "maxHistory")
	f.Without(migration.Needless, "the agent has one client for all services", "persistentClient")
	f.Without(migration.Needless, waits, "waitStrategy")
	storage := cmp.Or(f.Text("storageNamespace"), o.Namespace)
	if t.finish(o, d); o.service != nil {
		o.Fields.Note("", migration.Check, "Helm's record of the release stays until you run: "+retire(name, storage, d))
	}
}

// retire returns the command that deletes Helm's record of a release. A name of others that could mean more to a shell is
// left out.
func retire(release, namespace string, d *fleetv1.Document) string {
	if objectname.ValidateLabel("", namespace) != nil || !secretName.MatchString(release) {
		release, namespace = "RELEASE", "NAMESPACE"
	}
	return "leat import helm " + release + " --namespace " + namespace + " --retire " + migration.ID(d)
}

// releaseName returns the name as Flux shortens it.
func releaseName(name string) string {
	const hash = 12
	if len(name) <= renderstep.MaxReleaseName {
		return name
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	return name[:renderstep.MaxReleaseName-hash-1] + "-" + sum[:hash]
}

// chartOf returns the chart that a HelmRelease names.
func (t *translation) chartOf(o *object) *chart {
	f := o.spec
	if !f.Has("chartRef") {
		template := f.Part("chart")
		template.Without(migration.Needless, "Leat has no object for the chart", "metadata")
		if !template.Has("spec") {
			return &chart{missing: "it names no chart" + patched}
		}
		return t.chartIn(template.Part("spec"), o.Namespace)
	}
	from, reason := t.sourceOf(f.Part("chartRef"), o.Namespace)
	switch {
	case from == nil:
		return &chart{missing: reason}
	case from.Kind == kindOCI:
		return &chart{from: from.source}
	case from.Kind != kindChart:
		return &chart{missing: "its chartRef names a " + from.Kind}
	}
	from.isUsed = true
	if from.chart == nil {
		from.chart = t.chartIn(from.spec, from.Namespace)
		when(from.spec, "suspend", migration.Differs, "pause the service instead: spec.paused")
	}
	if from.chart.missing == "" {
		o.takes = append(o.takes, from)
	}
	return from.chart
}

// chartIn returns the chart that fields of a HelmChart name.
func (t *translation) chartIn(f *migration.Fields, namespace string) *chart {
	c := &chart{name: f.Text("chart"), version: strings.TrimSpace(f.Text("version")), valuesFiles: f.Texts("valuesFiles")}
	if file := f.Text("valuesFile"); file != "" { // of earlier versions
		c.valuesFiles = append(c.valuesFiles, file)
	}
	from, reason := t.sourceOf(f.Part("sourceRef"), namespace)
	switch {
	case from == nil:
		c.missing = reason
		return c
	case from.Kind != kindGit && from.Kind != kindHelm:
		c.missing = "its chart is in a " + from.Kind + ", and Flux takes charts of a HelmRepository or a GitRepository"
		return c
	}
	if c.from = from.source; c.name == "" {
		c.missing = "it names no chart"
		return c
	}
	c.valuesFiles = c.files(f)
	if strategy := f.Text("reconcileStrategy"); c.from.kind == kindGit && strategy != "Revision" {
		f.Note("reconcileStrategy", migration.Differs, "Leat delivers each commit to the chart's folder, and not only new versions of the chart")
	}
	f.Skip("interval")
	f.Without(migration.Check, "set spec.verification of the chart's repository; until then the service delivers unsigned charts", "verify")
	return c
}

// files returns the files of values without the chart's own, which Leat always reads first. They are relative to the chart
// or, in Git, to the repository's root.
func (c *chart) files(f *migration.Fields) []string {
	optional := flag(f, "ignoreMissingValuesFiles")
	own := defaultValues
	if c.from.kind == kindGit {
		own = path.Join(migration.Folder(c.name), own)
	}
	var files []string
	for i, file := range c.valuesFiles {
		switch file = path.Clean(file); {
		case i == 0 && file == own:
			continue
		case i == 0:
			f.Note("valuesFiles", migration.Differs, "Leat reads the chart's own values.yaml before these files, and Flux does not")
		}
		if optional {
			file += "?"
		}
		files = append(files, file)
	}
	return files
}

// exact matches a version, and not a range of them.
var exact = regexp.MustCompile(`^v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

// versionRef returns what follows a version or a range of them. Nil: the highest stable one.
func versionRef(version string) *typev1.GitRef {
	switch {
	case version == "" || version == "*":
		return nil
	case exact.MatchString(version):
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: version}}
	}
	return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: version}}
}

// chartSource returns where a service takes its chart from, and sets where the step finds the chart and its files.
func (t *translation) chartSource(c *chart, step *typev1.RenderStep) (s *typev1.Source, reason string) {
	size := c.from.bytes()
	for _, file := range c.valuesFiles {
		size += len(file)
	}
	switch {
	case !t.copies(size):
		return nil, tooMuch
	case c.from.registry != "":
		d, reason := t.accept(c.from.registry+"/"+strings.Trim(c.name, "/"), inRegistry)
		if d == nil {
			return nil, reason
		}
		c.from.object.add(d)
		s = &typev1.Source{Repository: d.GetRepository().GetMetadata().GetName(), Ref: versionRef(c.version)}
	case c.from.kind == kindHelm:
		s = c.from.of()
		s.Chart, s.Ref = c.name, versionRef(c.version)
	case c.from.kind == kindGit:
		s = c.from.of()
		s.Path = migration.Folder(c.name)
	default:
		s = c.from.of()
	}
	s.Mount = mount
	within := mount
	if c.from.kind == kindGit {
		for _, file := range c.valuesFiles {
			if s.GetPath() != "" && !strings.HasPrefix(file, s.GetPath()+"/") {
				s.Root, step.Path = ".", path.Join(mount, s.GetPath())
			}
		}
	}
	for _, file := range c.valuesFiles {
		if c.from.kind == kindGit && s.GetRoot() == "" {
			file = strings.TrimPrefix(file, s.GetPath()+"/")
		}
		step.GetHelm().ValuesFiles = append(step.GetHelm().ValuesFiles, path.Join(within, file))
	}
	return s, ""
}

// values returns the values of a chart: those of ConfigMaps, those of the object itself, and those that have a path.
func (t *translation) values(o *object) *structpb.Struct {
	f := o.spec
	all := map[string]any{}
	var targets []func()
	for _, ref := range f.Parts("valuesFrom") {
		name, target, isLiteral := cmp.Or(ref.Text("valuesKey"), defaultValues), ref.Text("targetPath"), flag(ref, "literal")
		advice := "write the values into spec.render[0].helm.values, and secrets among them as ${NAME} with spec.config.secrets"
		if target != "" {
			advice = "set spec.render[0].helm.parameters, such as " + target + ": ${NAME}, and spec.config.references, such as NAME: REFERENCE#" + name
		}
		data := t.configMap(o, ref, advice)
		if data == nil {
			continue
		}
		text, isThere := data[name]
		switch {
		case !isThere && flag(ref, "optional"):
		case !isThere:
			ref.Note("valuesKey", migration.Missing, "the ConfigMap has no such key")
		case len(text) > maxValues:
			ref.Note("name", migration.Missing, "the values are too long for a service; write them into a file beside the chart, and name it in spec.render[0].helm.valuesFiles")
		case target != "":
			targets = append(targets, func() {
				if err := setTarget(all, target, text, isLiteral); err != nil {
					ref.Note("targetPath", migration.Missing, "its value cannot be set: "+err.Error())
				}
			})
		default:
			var values map[string]any
			if err := yaml.Unmarshal([]byte(text), &values); err != nil {
				ref.Note("valuesKey", migration.Missing, "holds no values in YAML")
				continue
			}
			all = merged(all, values)
		}
	}
	all = merged(all, f.Map("values"))
	if len(targets) > 0 {
		all = runtime.DeepCopyJSON(all)
	}
	for _, set := range targets {
		set()
	}
	hasVariable, hasLarge := inspect(all)
	if hasVariable {
		f.Note("values", migration.Check, "holds ${…}, which Leat replaces if the service has a configuration; write $${ for a ${ that stays")
	}
	if hasLarge {
		f.Note("values", migration.Missing, "holds a whole number that a document cannot hold; write it in quotes")
	}
	tree, err := structpb.NewStruct(all)
	if err != nil {
		f.Note("values", migration.Missing, "cannot be written as values of a document")
		return nil
	}
	if len(tree.GetFields()) == 0 {
		return nil
	}
	return tree
}

// merged returns the values of both; b wins. Neither is changed.
func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	for name, value := range b {
		below, isMap := value.(map[string]any)
		if before, areMaps := all[name].(map[string]any); isMap && areMaps {
			value = merged(before, below)
		}
		all[name] = value
	}
	return all
}

// longIndex matches a place in a list beyond those that values have.
var longIndex = regexp.MustCompile(`\[\s*\d{4,}`)

// literal protects a text from the syntax of helm --set.
var literal = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`)

// setTarget sets a value at a path in the syntax of helm --set, as Flux does.
func setTarget(values map[string]any, target, text string, isLiteral bool) error {
	set := strvals.ParseInto
	switch {
	case isLiteral:
		text, set = literal.Replace(text), strvals.ParseIntoString
	case len(text) > 1 && strings.ContainsAny(text[:1], `'"`) && text[:1] == text[len(text)-1:]:
		text, set = strings.Trim(text, `'"`), strvals.ParseIntoString
	}
	expression := target + "=" + text
	if len(target) > maxTarget || !isLiteral && strings.Count(expression, "[") > maxItems || longIndex.MatchString(expression) {
		return fmt.Errorf("it names more places in lists than an import makes")
	}
	return set(expression, values)
}

// actions sets what the parts for Helm's actions say.
func (t *translation) actions(o *object, spec *fleetv1.ServiceSpec, helm *typev1.HelmStep) {
	f := o.spec
	install, upgrade, test := f.Part("install"), f.Part("upgrade"), f.Part("test")
	if !flag(install, "createNamespace") {
		spec.Sync.CreateNamespace = new(false)
	}
	helm.Crds = crds(install, upgrade)
	helm.SkipSchema = flag(upgrade, "disableSchemaValidation")
	helm.SkipTests = !flag(test, "enable")
	helm.SkipHooks = flag(upgrade, "disableHooks")
	for _, part := range []*migration.Fields{install, upgrade} {
		if flag(part, "disableSchemaValidation") != helm.GetSkipSchema() {
			part.Note("disableSchemaValidation", migration.Differs, "Leat has one setting for all changes, and takes that of upgrade")
		}
		if flag(part, "disableHooks") != helm.GetSkipHooks() {
			part.Note("disableHooks", migration.Differs, "Leat has one setting for all changes, and takes that of upgrade")
		}
		when(part, "disableOpenAPIValidation", migration.Differs, "the API server checks each object when it is applied")
		when(part, "disableTakeOwnership", migration.Differs, "the service has to adopt the objects of the release; spec.policy.adoption: never refuses others later")
		when(part, "disableWait", migration.Differs, waits)
		when(part, "disableWaitForJobs", migration.Differs, waits)
		part.Without(migration.Differs, retries, "remediation", "strategy")
		part.Without(migration.Needless, "spec.sync.healthTimeout counts for each change", "timeout")
		part.Without(migration.Needless, "Leat always applies by server-side apply", "serverSideApply")
	}
	when(install, "replace", migration.Needless, noRelease)
	spec.Policy.Recreate = flag(upgrade, "force")
	when(upgrade, "preserveValues", migration.Missing, "Leat adds no values of earlier releases; write them into spec.render[0].helm.values")
	when(upgrade, "cleanupOnFail", migration.Differs, retries)
	upgrade.Without(migration.Differs, "Leat keeps the objects that both charts have, and prunes the others", "chartNameChangeStrategy")
	if helm.GetSkipHooks() && !helm.GetSkipTests() {
		test.Note("enable", migration.Differs, "Leat leaves out tests together with hooks")
	}
	if timeout := duration(test, "timeout"); timeout != nil && !helm.GetSkipTests() {
		spec.Policy.Tests = &typev1.Tests{Timeout: timeout}
	}
	when(test, "ignoreFailures", migration.Differs, "a service whose tests fail is degraded")
	test.Without(migration.Differs, "Leat runs all tests of the chart", "filters")
	f.Without(migration.Differs, retries, "rollback")
	uninstall(f.Part("uninstall"), spec)
}

// crds returns how the definitions of a chart are treated. The release exists, so what Flux does at an upgrade counts.
func crds(install, upgrade *migration.Fields) typev1.CrdPolicy {
	first, then := install.Text("crds"), upgrade.Text("crds")
	if flag(install, "skipCRDs") { // of earlier versions
		first = cmp.Or(first, "Skip")
	}
	switch {
	case then == "CreateReplace":
		return typev1.CrdPolicy_CRD_POLICY_APPLY
	case then == "Create", first != "Skip":
		return typev1.CrdPolicy_CRD_POLICY_CREATE
	}
	return typev1.CrdPolicy_CRD_POLICY_SKIP
}

// uninstall sets how objects are deleted.
func uninstall(f *migration.Fields, spec *fleetv1.ServiceSpec) {
	deletion := &typev1.Deletion{Timeout: duration(f, "timeout")}
	switch f.Text("deletionPropagation") {
	case "":
	case "foreground":
		deletion.Propagation = typev1.DeletePropagation_DELETE_PROPAGATION_FOREGROUND
	case "background":
		deletion.Propagation = typev1.DeletePropagation_DELETE_PROPAGATION_BACKGROUND
	case "orphan":
		deletion.Propagation = typev1.DeletePropagation_DELETE_PROPAGATION_ORPHAN
	default:
		f.Note("deletionPropagation", migration.Missing, "the import does not know this propagation")
	}
	if !isZero(deletion) {
		spec.Policy.Deletion = deletion
	}
	when(f, "disableHooks", migration.Differs, "hooks for the deletion run, unless skipHooks leaves out all hooks")
	when(f, "keepHistory", migration.Needless, noRelease)
	when(f, "disableWait", migration.Needless, "Leat shows what is still being deleted")
}

// drift sets the reaction to changes of others. Helm does not look for them, and Leat at least reports them.
func drift(f *migration.Fields, policy *typev1.SyncPolicy) {
	switch mode := f.Text("mode"); mode {
	case "enabled":
	case "", "disabled", "warn":
		policy.Drift = typev1.DriftMode_DRIFT_MODE_REPORT
	default:
		policy.Drift = typev1.DriftMode_DRIFT_MODE_REPORT
		f.Note("mode", migration.Missing, "the import does not know this mode")
	}
	if policy.Ignore = ignoreRules(f); policy.Ignore != nil {
		f.Note("ignore", migration.Differs, "Leat leaves these fields to others when it applies a change, too")
	}
}
