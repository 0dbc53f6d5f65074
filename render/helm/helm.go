// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package helm renders Helm charts with Helm's own template engine, as helm template does.
//
// It makes objects and nothing else: no release is recorded in the cluster. Hooks, tests, weights
// and deletion policies stay on the objects as annotations, and the agent that applies the objects
// carries them out. The chart is in the service's tree with all its dependencies; nothing is fetched.
//
// A render is a function of its input. Functions that return something else at each call return
// what they returned the last time (generators.go); lookup returns what the input holds; names of
// hosts are not resolved. References of a schema to other files are refused.
package helm

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// Renderer renders charts. It is safe for concurrent use. A render cannot be interrupted, and its
// memory is not bounded.
type Renderer struct{}

var _ render.StepRenderer = Renderer{}

// RenderStep implements render.StepRenderer. It checks ctx only before it begins.
func (Renderer) RenderStep(ctx context.Context, in render.StepInput) (render.StepOutput, error) {
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	options := renderstep.HelmOptions{}
	if in.Step.Helm != nil {
		options = *in.Step.Helm
	}
	loaded, err := load(in.Files, in.Folder, in.Limits)
	if err != nil {
		return render.StepOutput{}, err
	}
	values, err := mergeValues(in, options)
	if err != nil {
		return render.StepOutput{}, err
	}
	r := rendering{in: in, options: options, chart: loaded, root: loaded.Name(), folder: cmp.Or(in.Folder, ".")}
	return r.render(values)
}

// rendering is one render. It belongs to one goroutine.
type rendering struct {
	in      render.StepInput
	options renderstep.HelmOptions
	chart   *chart.Chart
	root    string // the chart's name, with which Helm's names of templates begin
	folder  string // the chart's folder in the tree
}

func (r *rendering) render(values map[string]any) (out render.StepOutput, err error) {
	if err := r.checkChart(); err != nil {
		return out, err
	}
	words := wordsOf(r.chart, values)
	if words.generators {
		mark(r.chart)
	}
	if err := chartutil.ProcessDependencies(r.chart, values); err != nil {
		return out, r.errorf("enable the chart's dependencies: %w", err)
	}
	capabilities, err := r.capabilities()
	if err != nil {
		return out, err
	}
	top, err := commonutil.ToRenderValuesWithSchemaValidation(r.chart, values, r.release(), capabilities, true)
	if err != nil {
		return out, r.errorf("merge values: %w", err)
	}
	if !r.options.SkipSchema {
		if err := checkSchemas(r.chart, top["Values"]); err != nil {
			return out, r.explain(err)
		}
	}
	g := generators{before: r.in.Generated, made: render.Generated{}}
	custom := g.funcs()
	custom["lookup"] = lookup(r.in.Lookups, r.options.Lookup, func(l render.Lookup) { out.Secrets = append(out.Secrets, l.Secrets()...) })
	files, err := engine.Engine{CustomTemplateFuncs: custom}.Render(r.chart, top)
	if err != nil {
		return out, r.explain(err)
	}
	out.Generated = g.made
	out.Asked = render.Asked{
		Facts:       words.capabilities || r.chart.Metadata.KubeVersion != "" || r.options.FactsAt != "",
		APIVersions: words.capabilities,
		Lookups:     words.lookup,
	}
	if words.lookup && len(r.options.Lookup) == 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("chart %s: its templates use the function lookup, which returns nothing here; "+
			"spec.render[].helm.lookup permits it to read objects", r.root))
	}
	return out, r.addDocuments(&out, files)
}

// checkChart returns an error about a chart that Helm would not install.
func (r *rendering) checkChart() error {
	if kind := r.chart.Metadata.Type; kind != "" && kind != "application" {
		return r.errorf("is a chart of type %q, which makes no objects; name a chart that depends on it", kind)
	}
	packed := map[string]bool{}
	for _, dependency := range r.chart.Dependencies() {
		packed[dependency.Name()] = true
	}
	var missing []string
	for _, dependency := range r.chart.Metadata.Dependencies {
		if !packed[dependency.Name] {
			missing = append(missing, strings.TrimSpace(dependency.Name+" "+dependency.Version))
		}
	}
	if len(missing) > 0 {
		return r.errorf("names dependencies that are not in its folder charts: %s; run helm dependency update and commit what it adds there, "+
			"or list the repositories that they come from under chartRepositories of the chart's repository",
			strings.Join(missing, ", "))
	}
	return nil
}

// capabilities returns what templates may know of the cluster. Without facts these are Helm's
// defaults.
func (r *rendering) capabilities() (*common.Capabilities, error) {
	known := common.DefaultCapabilities.Copy()
	cluster := r.in.Facts.Cluster
	if len(cluster.APIVersions) > 0 {
		known.APIVersions = cluster.APIVersions
	}
	if cluster.KubernetesVersion != "" {
		version, err := common.ParseKubeVersion(cluster.KubernetesVersion)
		if err != nil {
			return nil, fmt.Errorf("read the cluster's version %q: %w", cluster.KubernetesVersion, err)
		}
		known.KubeVersion = *version
	}
	if wanted := r.chart.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, known.KubeVersion.String()) {
		return nil, r.errorf("wants Kubernetes %s, and the cluster has %s; choose another version of the chart", wanted, known.KubeVersion.Version)
	}
	return known, nil
}

// release returns what templates read under .Release.
func (r *rendering) release() common.ReleaseOptions {
	isUpgrade := r.in.Installed || r.options.Installed
	release := common.ReleaseOptions{
		Name: releaseName(r.options, r.in.Facts.Service.Name), Namespace: cmp.Or(r.in.Facts.Service.Namespace, "default"),
		IsInstall: !isUpgrade, IsUpgrade: isUpgrade, Revision: 1,
	}
	if isUpgrade {
		release.Revision = 2
	}
	return release
}

// releaseName returns the name of a service's release.
func releaseName(options renderstep.HelmOptions, service string) string {
	if options.ReleaseName != "" {
		return options.ReleaseName
	}
	if len(service) > renderstep.MaxReleaseName {
		service = strings.TrimRight(service[:renderstep.MaxReleaseName], "-.")
	}
	return cmp.Or(service, "release-name")
}

// errorf returns an error about the chart.
func (r *rendering) errorf(format string, args ...any) error {
	return &render.Error{Path: path.Join(r.folder, render.ChartFile), Cause: fmt.Errorf(format, args...)}
}

// explain returns an error of Helm's with the names that files have in the tree.
func (r *rendering) explain(err error) error {
	text := strings.TrimSpace(err.Error())
	for _, part := range []string{"templates/", "charts/"} {
		text = strings.ReplaceAll(text, r.root+"/"+part, path.Join(r.folder, part)+"/")
	}
	return &render.Error{Path: r.folder, Cause: fmt.Errorf("render chart %s: %s", r.root, text)}
}

// place returns the tree's name of a template that Helm names.
func (r *rendering) place(template string) string {
	return path.Join(r.folder, strings.TrimPrefix(template, r.root+"/"))
}
