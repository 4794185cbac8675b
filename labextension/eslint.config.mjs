import tseslint from 'typescript-eslint';

export default tseslint.config({
  files: ['src/**/*.{ts,tsx}'],
  extends: [tseslint.configs.recommended],
  rules: {
    '@typescript-eslint/no-explicit-any': 'error',
    '@typescript-eslint/no-namespace': 'off', // JupyterLab's IOptions convention
    eqeqeq: 'error',
    'no-restricted-globals': ['error', 'fetch', 'WebSocket', 'setInterval']
  }
});
