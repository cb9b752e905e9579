package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// workload has the parts of a Deployment that the Pod Security Standards judge.
type workload struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Template *corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// podSecurity fails if a pod template on standard input is not allowed at a level, by the code of the
// admission plugin PodSecurity.
func podSecurity(arguments []string) error {
	text, err := one(arguments, "a level")
	if err != nil {
		return err
	}
	level, err := api.ParseLevel(text)
	if err != nil {
		return err
	}
	var workloads []workload
	if err := json.NewDecoder(os.Stdin).Decode(&workloads); err != nil {
		return fmt.Errorf("want a JSON list of objects on standard input: %w", err)
	}
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	judged := 0
	for _, one := range workloads {
		template := one.Spec.Template
		if template == nil {
			continue
		}
		judged++
		at := api.LevelVersion{Level: level, Version: api.LatestVersion()}
		results := checks.EvaluatePod(at, &template.ObjectMeta, &template.Spec)
		if all := policy.AggregateCheckResults(results); !all.Allowed {
			return fmt.Errorf("%s %s is not %s: %s", one.Kind, one.Metadata.Name, level, all.ForbiddenDetail())
		}
	}
	if judged == 0 {
		return fmt.Errorf("there is no pod template among these %d objects", len(workloads))
	}
	fmt.Printf("%d pod templates are %s\n", judged, level)
	return nil
}
