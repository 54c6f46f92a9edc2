package deploy

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const folder = "../../docs/deploy/"

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// objects are the objects that the kustomize base renders.
type objects struct {
	deployment apps.Deployment
	service    core.Service
	budget     policy.PodDisruptionBudget
	monitor    monitoring.ServiceMonitor
	config     core.ConfigMap
}

// render builds the base as kubectl does, and reads the result strictly: an unknown or repeated field is an error.
func render(t *testing.T) (o objects) {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder+"kubernetes")
	must(t, err)
	kinds := map[string]any{
		"Deployment": &o.deployment, "Service": &o.service, "PodDisruptionBudget": &o.budget, "ServiceMonitor": &o.monitor, "ConfigMap": &o.config,
	}
	for _, resource := range rendered.Resources() {
		into := kinds[resource.GetKind()]
		delete(kinds, resource.GetKind())
		text, err := resource.AsYAML()
		if err == nil {
			err = yaml.UnmarshalStrict(text, into)
		}
		if err != nil {
			t.Errorf("%s: %v", resource.GetKind(), err)
		}
		if resource.GetNamespace() != "delayer" {
			t.Errorf("%s is in the namespace %q", resource.GetKind(), resource.GetNamespace())
		}
	}
	for kind := range kinds {
		t.Errorf("no %s", kind)
	}
	return o
}

func TestKubernetes(t *testing.T) {
	o := render(t)
	pod := o.deployment.Spec.Template
	for name, selector := range map[string]map[string]string{
		"Deployment": o.deployment.Spec.Selector.MatchLabels, "Service": o.service.Spec.Selector,
		"PodDisruptionBudget": o.budget.Spec.Selector.MatchLabels, "ServiceMonitor": o.monitor.Spec.Selector.MatchLabels,
	} {
		for key, value := range selector {
			if pod.Labels[key] != value || o.service.Labels[key] != value {
				t.Errorf("%s selects %s=%s; the pods have %v, the Service %v", name, key, value, pod.Labels, o.service.Labels)
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects nothing", name)
		}
	}
	container := pod.Spec.Containers[0]
	port := container.Ports[0]
	if *o.deployment.Spec.Replicas != 2 || o.budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%d replicas, of which %v may be away", *o.deployment.Spec.Replicas, o.budget.Spec.MaxUnavailable)
	}
	for name, used := range map[string]string{
		"Service": o.service.Spec.Ports[0].TargetPort.StrVal, "ServiceMonitor": o.monitor.Spec.Endpoints[0].Port,
		"liveness": container.LivenessProbe.HTTPGet.Port.StrVal, "readiness": container.ReadinessProbe.HTTPGet.Port.StrVal,
	} {
		if used != port.Name {
			t.Errorf("%s uses the port %q, not %q", name, used, port.Name)
		}
	}
	if o.service.Spec.Ports[0].Name != o.monitor.Spec.Endpoints[0].Port {
		t.Errorf("the ServiceMonitor's port is not the Service's %q", o.service.Spec.Ports[0].Name)
	}
	if !strings.HasPrefix(container.Image, "registry.example/delayer:") {
		t.Errorf("image %s", container.Image)
	}
	conf := o.config.Data["delayer.conf"]
	if pod.Spec.Volumes[0].ConfigMap.Name != o.config.Name || conf == "" {
		t.Errorf("the pods mount %+v, the configuration is %s", pod.Spec.Volumes[0], o.config.Name)
	}
	if !strings.Contains(conf, fmt.Sprintf("\nlisten = 0.0.0.0:%d\n", port.ContainerPort)) {
		t.Errorf("the container's port is %d, and delayer.conf\n%s", port.ContainerPort, conf)
	}
	_, hosts, _ := strings.Cut(conf, "\nhosts = ")
	for _, suffix := range []string{"", ".delayer", ".delayer.svc", ".delayer.svc.cluster.local"} {
		if name := o.service.Name + suffix; !slices.Contains(strings.Split(strings.TrimSpace(hosts), ", "), name) {
			t.Errorf("hosts lacks %s, the Service's name: %s", name, hosts)
		}
	}
	for _, mount := range container.VolumeMounts {
		if mount.MountPath == "/run/secrets/delayer" && pod.Spec.Volumes[1].Secret.SecretName != "delayer" {
			t.Errorf("%+v", pod.Spec.Volumes[1])
		}
	}
}

// KEDA's own types are of no library that we use: the parts that matter are read here.
func TestKEDA(t *testing.T) {
	text, err := os.ReadFile(folder + "keda.yaml")
	must(t, err)
	var scaled struct {
		Spec struct {
			Triggers []struct {
				Type              string
				Metadata          map[string]string
				AuthenticationRef struct{ Name string }
			}
		}
	}
	var authentication struct {
		Metadata struct{ Name string }
		Spec     struct {
			SecretTargetRef []struct{ Parameter, Name, Key string }
		}
	}
	first, second, _ := strings.Cut(string(text), "\n---\n")
	must(t, yaml.Unmarshal([]byte(first), &scaled))
	must(t, yaml.Unmarshal([]byte(second), &authentication))
	trigger := scaled.Spec.Triggers[0]
	if trigger.Type != "metrics-api" || trigger.Metadata["valueLocation"] != "load" || trigger.Metadata["url"] != "http://delayer.delayer.svc:9277/v1/load?topic=mail&within=60" {
		t.Errorf("%+v", trigger)
	}
	secret := authentication.Spec.SecretTargetRef[0]
	if trigger.AuthenticationRef.Name != authentication.Metadata.Name || secret.Parameter != "token" || secret.Name != "delayer" || secret.Key != "http-token" {
		t.Errorf("%+v, %+v", trigger, authentication)
	}
}

// The rule of prometheus-adapter reads metrics that there are, and the ServiceMonitor asks for the one that costs.
func TestPrometheusAdapter(t *testing.T) {
	text, err := os.ReadFile(folder + "prometheus-adapter.yaml")
	must(t, err)
	var rules struct {
		Rules struct {
			External []struct {
				SeriesQuery  string
				Resources    struct{ Namespaced bool }
				Name         struct{ As string }
				MetricsQuery string
			}
		}
	}
	must(t, yaml.UnmarshalStrict(text, &rules))
	rule := rules.Rules.External[0]
	documented, err := os.ReadFile(folder + "../metrics.md")
	must(t, err)
	names := regexp.MustCompile(`delayer_\w+`).FindAllString(rule.MetricsQuery, -1)
	for _, name := range append(names, rule.SeriesQuery) {
		if !strings.Contains(string(documented), "| `"+name+"` | gauge | topic |") {
			t.Errorf("there is no metric %s", name)
		}
	}
	if len(names) != 3 || rule.Name.As != "delayer_load" || rule.Resources.Namespaced {
		t.Errorf("%+v", rule)
	}
	if asked := render(t).monitor.Spec.Endpoints[0].Params["due_soon"]; !slices.Equal(asked, []string{"1"}) {
		t.Errorf("the ServiceMonitor asks for due_soon=%q", asked)
	}
}
